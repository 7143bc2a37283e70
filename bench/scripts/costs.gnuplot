# Draws the CPU time of a request by process. Given with -e: table, image, deployment.
set terminal svg size 900,420 dynamic enhanced font 'sans-serif,12' background '#ffffff'
set output image
set title sprintf('CPU time for a request, microseconds, %s deployment', deployment) font ',15'
set yrange [0:*]
set grid ytics lc rgb '#dddddd'
set style data histograms
set style histogram rowstacked
set boxwidth 0.6
set style fill solid 0.9 noborder
set key outside right top
set xtics nomirror
set bmargin 6
plot table using 2:xtic(1) lc rgb '#1f5fa8' title 'service', \
  '' using 3 lc rgb '#c0392b' title 'Redis', \
  '' using 4 lc rgb '#5b8c5a' title 'PostgreSQL', \
  '' using 5 lc rgb '#b8b8b8' title 'processor', \
  '' using ($0-0.4):6:(0.8):(0) with vectors nohead lw 3 lc rgb '#222222' title 'bare Fastify'
