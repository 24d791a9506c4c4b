#!/bin/sh
# The steps of the workflow: etl.sh STEP, with the payload on the standard input and the result, which is JSON, on the standard output. Each
# may be repeated: the same day again gives the same files.
set -eu
payload=$(cat)
value() { printf '%s' "$payload" | sed -n "s/.*\"$1\":\"\([a-z0-9-]*\)\".*/\1/p"; } # of a name in the payload
day=$(value day)
stage=staging/$day
case $1 in
extract) # the list of the shops with data
	mkdir -p "$stage"
	(cd sales && ls ./*.csv) | sed 's/^\.\/\(.*\)\.csv$/"\1"/' | paste -sd, | sed 's/.*/[&]/'
	;;
load) # the rows of one shop; a row without a price is bad
	shop=$(value shop)
	grep ',[0-9][0-9]*$' "sales/$shop.csv" > "$stage/$shop.tmp" || true
	bad=$(grep -vc ',[0-9][0-9]*$' "sales/$shop.csv" || true)
	mv "$stage/$shop.tmp" "$stage/$shop.csv"
	echo "{\"shop\":\"$shop\",\"rows\":$(wc -l < "$stage/$shop.csv"),\"bad\":$bad}"
	;;
unload) # undoes load
	rm -f "$stage/$(value shop).csv"
	;;
sum) # the sums of the results of all loads
	sum() { printf '%s' "$payload" | grep -o "\"$1\":[0-9]*" | awk -F: '{n += $2} END {print n + 0}'; }
	echo "{\"rows\":$(sum rows),\"bad\":$(sum bad)}"
	;;
publish)
	mkdir -p published
	cat "$stage"/*.csv | sort > "published/$day.tmp"
	mv "published/$day.tmp" "published/$day.csv"
	rm -r "$stage"
	echo "\"published/$day.csv\""
	;;
*)
	exit 65
	;;
esac
