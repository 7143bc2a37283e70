# Draws latencies at a fixed rate. Given with -e: table, image.
set terminal svg size 1100,440 dynamic enhanced font 'sans-serif,12' background '#ffffff'
set output image
set title 'Latency at a fixed rate, ms, from when a request was due (line: lowest to highest round of p99)' font ',15'
set logscale y
set yrange [0.3:*]
set grid ytics lc rgb '#dddddd'
set boxwidth 0.25
set style fill solid 0.9 noborder
set key outside right top
set xtics nomirror font ',11'
set bmargin 6
plot table using ($0-0.27):2:xtic(1) with boxes lc rgb '#9dbbe0' title 'p50', \
  '' using ($0):3 with boxes lc rgb '#1f5fa8' title 'p99', \
  '' using ($0+0.27):6 with boxes lc rgb '#d0762b' title 'p99.9', \
  '' using ($0):4:(0):($5-$4) with vectors nohead lw 2 lc rgb '#222222' notitle
