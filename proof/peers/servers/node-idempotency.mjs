// NestJS with @node-idempotency/nestjs, as its Readme advises: the module with the redis adapter, and @Idempotent() on the
// handler; everything else is the default. Decorators are applied by hand, for this file is run as it is.
import 'reflect-metadata';
import { Body, Controller, Headers, HttpCode, HttpException, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Idempotent, NodeIdempotencyModule } from '@node-idempotency/nestjs';
import { charge } from './charge.mjs';

const { HOST, PORT, REDIS_URL } = process.env;

class PaymentsController {
  async pay(key, money) {
    const { status, body } = await charge(key, money);
    if (status !== 200) throw new HttpException(body, status);
    return body;
  }
}
const { prototype } = PaymentsController;
const handler = Object.getOwnPropertyDescriptor(prototype, 'pay');
Headers('idempotency-key')(prototype, 'pay', 0);
Body()(prototype, 'pay', 1);
for (const decorate of [Idempotent(), HttpCode(200), Post()]) decorate(prototype, 'pay', handler);
Controller('payments')(PaymentsController);

class AppModule {}
Module({
  imports: [NodeIdempotencyModule.forRootAsync({ storage: { adapter: 'redis', options: { url: REDIS_URL } } })],
  controllers: [PaymentsController],
})(AppModule);

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(PORT, HOST);
