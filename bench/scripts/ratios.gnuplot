# Draws the rates beside a bare Fastify. Given with -e: table, image.
set terminal svg size 1100,440 dynamic enhanced font 'sans-serif,12' background '#ffffff'
set output image
set title 'Requests a second, of those of a bare Fastify (line: lowest to highest round)' font ',15'
set yrange [0:1.5]
set grid ytics lc rgb '#dddddd'
set boxwidth 0.34
set style fill solid 0.9 noborder
set key outside right top
set xtics nomirror font ',11'
set bmargin 6
plot table using ($1-0.19):3:xtic(2) with boxes lc rgb '#1f5fa8' title 'embedded', \
  '' using ($1+0.19):7 with boxes lc rgb '#d0762b' title 'distributed', \
  '' using ($1-0.19):4:(0):($5-$4) with vectors nohead lw 2 lc rgb '#222222' notitle, \
  '' using ($1+0.19):8:(0):($9-$8) with vectors nohead lw 2 lc rgb '#222222' notitle, \
  '' using ($1-0.37):6:(0.36):(0) with vectors nohead lw 3 lc rgb '#2c9c4b' title 'target', \
  '' using ($1+0.01):10:(0.36):(0) with vectors nohead lw 3 lc rgb '#2c9c4b' notitle
