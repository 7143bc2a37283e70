# The service in a container. It starts only with AUTH set (rule A1), because others can reach it:
#   docker build -t idempay .
#   docker run --read-only --tmpfs /tmp -v idempay:/data -v ./secrets:/run/idempay:ro -p 127.0.0.1:8080:8080 \
#     -e AUTH=required -e API_KEYS_FILE=/run/idempay/api-keys.json idempay
# Mount the folder, because `idempay keys` replaces the file. User 1000 of the container must be able to read it.

FROM node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/package.json
COPY statements/package.json statements/package.json
COPY cli/package.json cli/package.json
COPY console/package.json console/package.json
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/build.mjs scripts/build.mjs
COPY client client
COPY statements statements
COPY cli cli
COPY console console
COPY reference-processor reference-processor
COPY src src
RUN npm run build
# What runs, and the optional packages for traces, all in the versions of the lock file: `npm prune` fetches nothing.
RUN npm pkg set $(node -p "const { peerDependencies, devDependencies } = require('./package.json'); Object.keys(peerDependencies).map((name) => 'dependencies[' + name + ']=' + devDependencies[name]).join(' ')") \
  && npm pkg delete devDependencies peerDependencies peerDependenciesMeta \
  && npm prune --omit=dev --offline && rm -rf node_modules/@idempay node_modules/.bin/idempay-cli
# A clone that was made under another umask keeps its modes, and the service is another user.
RUN chmod -R a+rX /app

FROM node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --chmod=755 bin bin
RUN install --directory --owner=node --group=node /data && ln -s /app/bin/idempay.js /usr/local/bin/idempay
USER node
VOLUME /data
EXPOSE 8080
# Asks no store, so that a container is not restarted because a store is down.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# An array, so that SIGTERM reaches the service and drains it.
ENTRYPOINT ["node", "/app/dist/main.js"]
