package pgtest

import (
	"testing"
	"time"
)

// ownClock gives a database a clock of its own. Sessions that have used clock_timestamp before keep
// that of the machine.
const ownClock = `do $$ begin
	if to_regproc('pg_catalog.machine_clock') is null then
		create table public.clock (ahead interval not null);
		insert into public.clock values ('0');
		grant select on public.clock to public;
		alter function pg_catalog.clock_timestamp() rename to machine_clock;
		create function pg_catalog.clock_timestamp() returns timestamptz language sql volatile
			as 'select pg_catalog.machine_clock() + (select ahead from public.clock)';
	end if;
end $$`

// SetClock sets the clock of a database: the time that clock_timestamp() returns in it. From now on it
// is ahead of the clock of the machine. The first call must come before other programs connect.
func SetClock(tb testing.TB, url string, ahead time.Duration) {
	tb.Helper()
	c := Connect(tb, url)
	Exec(tb, c, ownClock)
	if _, err := c.Exec(tb.Context(), "update public.clock set ahead = make_interval(secs => $1)", ahead.Seconds()); err != nil {
		tb.Fatal(err)
	}
}
