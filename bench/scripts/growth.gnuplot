# Draws the steps of bench/growth.mjs. Given with -e: image, and for each deployment a table of growth and one of sweeps; which
# deployments have steps, and which have sweeps.
set terminal svg size 900,820 dynamic enhanced font 'sans-serif,13' background '#ffffff'
set output image
set multiplot layout 3,words(grown) title 'As payments and keys become many' font ',16'
set grid ytics lc rgb '#dddddd'
set yrange [0:*]
set key bottom left
set style data linespoints
do for [deployment in grown] {
  table = value(deployment.'_growth')
  set title 'CPU time of all processes, us, '.deployment
  set xlabel 'payments and keys'
  set xrange [-0.3:2.3]
  plot table using 0:2:xtic(1) lw 2 lc rgb '#1f5fa8' title 'first payment', table using 0:3 lw 2 lc rgb '#d0762b' title 'repeat'
}
do for [deployment in grown] {
  table = value(deployment.'_growth')
  set title 'Milliseconds, '.deployment
  plot table using 0:5:xtic(1) lw 2 lc rgb '#1f5fa8' title 'kill -9 until ready', table using 0:($4*100) lw 2 lc rgb '#d0762b' title 'p99 of a read, times 100'
}
# After a start the engine compiles.
set xrange [5:*]
set key top right
set style data lines
do for [deployment in swept] {
  table = value(deployment.'_sweeps')
  set title 'p99 of each second beside a sweep, ms, '.deployment.', 10M'
  set xlabel 'seconds'
  set xtics auto
  plot table using 1:2 lw 2 lc rgb '#1f5fa8' title '200,000 keys expire', table using 1:3 lw 2 lc rgb '#d0762b' title '200,000 old payments are removed'
}
