# Draws one run of bench/soak.mjs. Given with -e: table, image, deployment.
set terminal svg size 900,720 dynamic enhanced font 'sans-serif,13' background '#ffffff'
set output image
set multiplot layout 3,1 title sprintf('An hour of steady load, %s deployment', deployment) font ',16'
set lmargin at screen 0.07
set rmargin at screen 0.80
set xlabel 'minutes'
set grid ytics lc rgb '#dddddd'
set yrange [0:*]
set key outside right top
set style data lines
set title 'Memory of the service, MiB'
plot table using 1:2 lw 2 lc rgb '#1f5fa8' title 'resident', table using 1:3 lw 2 lc rgb '#d0762b' title 'JavaScript heap'
set title 'Open files and connections of the service'
plot table using 1:4 lw 2 lc rgb '#1f5fa8' notitle
set title (deployment eq 'embedded' ? 'Write-ahead log of SQLite, MiB' : 'Write-ahead log of PostgreSQL (pg\_wal), MiB')
plot table using 1:5 lw 2 lc rgb '#1f5fa8' notitle
