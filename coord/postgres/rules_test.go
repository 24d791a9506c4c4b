//go:build unix

package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// The functions of the database follow the rules of package coord/internal/limits, which all other coordinators use. These
// tests give the same orders and draws to both, and compare the results.

// rivals are the holders. Each has a session with its id.
var rivals = []task.ID{{1}, {2}, {3}, {4}}

// line is a limit in the database and by the rules of package limits.
type line struct {
	conn     *pgx.Conn
	name     string
	requests map[task.ID]int // the number of the newest request of each session
	rules    *limits.Semaphore
	fence    uint64
}

// entry is an order as coord_orders takes it.
type entry struct {
	I       int     `json:"i"`
	Holder  task.ID `json:"holder"`
	Name    string  `json:"name"`
	Keep    int     `json:"keep"`
	Wanted  int     `json:"wanted"`
	AtLeast int     `json:"at_least"`
	Most    int     `json:"most"`
	Version uint64  `json:"version"`
}

// order orders permits in both. The holder keeps so many of the permits that it has.
func (l *line) order(t *rapid.T, holder task.ID, keep int, o coord.Order) {
	l.requests[holder]++
	o.Want, o.Least, o.Max = limits.Clamp(o.Want, o.Least, o.Max, coord.MaxPermits)
	q, err := json.Marshal(map[string]any{
		"session": holder, "number": l.requests[holder], "known": 0, "all": false, "names": 1000,
		"orders": []entry{{Holder: holder, Name: l.name, Keep: keep, Wanted: o.Want, AtLeast: o.Least, Most: o.Max, Version: o.Version}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.conn.Exec(t.Context(), "SELECT taskengine.coord_orders($1::text::jsonb)", string(q)); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	if st := l.rules.Find(holder); st != nil && st.Held > keep { // as package cells gives permits back that are ordered again
		less := o
		less.Want = keep
		l.rules.Order(holder, less, now)
		l.rules.Serve(now, &l.fence)
	}
	l.rules.Order(holder, o, now)
	l.rules.Serve(now, &l.fence)
	if len(l.rules.Standings) == 0 {
		l.rules = &limits.Semaphore{} // the database forgets it, too
	}
}

// standing is a holder and the numbers of its [coord.Holding], but that of the fence.
type standing struct {
	Holder                       task.ID
	Held, Share, Waiting, Needed int
}

// ofDatabase returns the holders in the order in which they are listed: those with permits by their fences, and then the
// others by their places.
func (l *line) ofDatabase(t *rapid.T) []standing {
	rows, _ := l.conn.Query(t.Context(), `SELECT s.holder::text, s.held, s.share, s.waiting, s.needed
		FROM taskengine.coord_standing(ARRAY[$1::text]) s JOIN taskengine.permit p ON p.name = s.name AND p.holder = s.holder
		ORDER BY p.held = 0, CASE WHEN p.held > 0 THEN p.fence ELSE p.place END`, l.name)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s standing, err error) {
		var id string
		if err = row.Scan(&id, &s.Held, &s.Share, &s.Waiting, &s.Needed); err != nil {
			return s, err
		}
		s.Holder, err = task.ParseID(id)
		return s, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (l *line) ofRules() []standing {
	all := []standing{}
	for _, h := range l.rules.Holders() {
		s := standing{Holder: h.Holder, Held: h.Held}
		s.Share, s.Waiting, s.Needed = l.rules.Others(l.rules.Find(h.Holder))
		all = append(all, s)
	}
	return all
}

func TestTheDatabaseGrantsPermitsAsOtherCoordinatorsDo(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, id := range rivals {
		open(t, url, id)
	}
	conn, requests, made := pgtest.Connect(t, url), map[task.ID]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		made++
		l := &line{conn: conn, name: fmt.Sprint("limit ", made), requests: requests, rules: &limits.Semaphore{}}
		most, version := 5, uint64(1)
		for range rapid.IntRange(1, 25).Draw(t, "orders") {
			if rapid.IntRange(0, 5).Draw(t, "change") == 0 {
				most, version = rapid.IntRange(0, 8).Draw(t, "max"), version+uint64(rapid.IntRange(0, 1).Draw(t, "newer"))
			}
			want := rapid.IntRange(0, 6).Draw(t, "want")
			o := coord.Order{Want: want, Least: rapid.IntRange(0, want).Draw(t, "least"), Max: most, Version: version}
			if rapid.IntRange(0, 9).Draw(t, "late") == 0 {
				o.Version--
			}
			l.order(t, rapid.SampledFrom(rivals).Draw(t, "holder"), rapid.IntRange(0, want).Draw(t, "keep"), o)
			if diff := cmp.Diff(l.ofRules(), l.ofDatabase(t)); diff != "" {
				t.Fatalf("by the rules and in the database:\n%s", diff)
			}
		}
		for _, id := range rivals {
			l.order(t, id, 0, coord.Order{})
		}
	})
}

// freeze makes the clock of a database stand still, for programs that connect later.
func freeze(t *testing.T, url string) {
	t.Helper()
	pgtest.SetClock(t, url, 0)
	execute(t, url, `CREATE TABLE public.frozen (at timestamptz); INSERT INTO public.frozen VALUES ('2026-01-01');
		CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM public.frozen'`)
}

// setTo sets a clock that stands still.
func setTo(t *rapid.T, conn *pgx.Conn, now time.Time) {
	if _, err := conn.Exec(t.Context(), "UPDATE public.frozen SET at = $1", now); err != nil {
		t.Fatal(err)
	}
}

// drawn is the answer of coord_draw.
type drawn struct {
	Tokens, Ahead, Wait, Next int64
}

// rule is a rate by the rules of package limits.
type rule struct {
	due, step, slack int64
}

// draw draws as package cells does for a node that shares its rates with none. The zero rule was never used.
func (r *rule) draw(now, step, slack, tokens int64, again bool) (d drawn) {
	lead := int64(0)
	if r.step == step && r.slack == slack {
		lead = limits.Lead(step)
	}
	r.step, r.slack = step, slack
	d.Tokens, r.due, d.Next = limits.Draw(now, r.due, step, slack, lead, tokens)
	if d.Tokens > 0 {
		return d
	}
	if a, after, ok := limits.DrawAhead(now, r.due, step, slack, tokens, again); ok {
		d.Ahead, d.Wait, d.Next = (after-r.due)/step, a.Wait(now), after-slack-now
		r.due = after
	}
	return d
}

func TestTheDatabaseDrawsTokensAsOtherCoordinatorsDo(t *testing.T) {
	t.Parallel()
	url := database(t)
	freeze(t, url)
	conn, rates := pgtest.Connect(t, url), 0
	rapid.Check(t, func(t *rapid.T) {
		rates++
		now, r := time.Unix(1.8e9, 0), &rule{}
		intervals := []time.Duration{time.Microsecond, 7 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second, 9 * time.Second, time.Hour}
		interval, burst := rapid.SampledFrom(intervals).Draw(t, "interval"), rapid.IntRange(1, 50).Draw(t, "burst")
		for range rapid.IntRange(1, 25).Draw(t, "draws") {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				interval, burst = rapid.SampledFrom(intervals).Draw(t, "interval"), rapid.IntRange(1, 50).Draw(t, "burst")
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, 3*interval.Microseconds()).Draw(t, "pause")) * time.Microsecond)
			setTo(t, conn, now)
			step, slack := limits.Bucket(interval, burst)
			tokens, again := int64(rapid.IntRange(1, 60).Draw(t, "tokens")), rapid.Bool().Draw(t, "again")
			want := r.draw(now.UnixNano(), step, slack, tokens, again)
			q := fmt.Sprintf(`[{"name": "rate %d", "step": %d, "slack": %d, "tokens": %d, "lead": %d}]`, rates, step, slack, tokens, limits.Earliest(step, again))
			var text string
			var got []drawn
			if err := conn.QueryRow(t.Context(), "SELECT taskengine.coord_draw($1::text::jsonb)::text", q).Scan(&text); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 1 {
				t.Fatalf("the answer is %s, %v", text, err)
			}
			if got[0].Ahead == 0 {
				got[0].Wait = 0 // it says when the tokens were there
			}
			if got[0] != want {
				t.Fatalf("%s draws %+v, and by the rules %+v", q, got[0], want)
			}
		}
	})
}

func TestTheDatabaseNumbersVersionsAsOtherCoordinatorsDo(t *testing.T) {
	t.Parallel()
	url := database(t)
	freeze(t, url)
	now := ask[time.Time](t, url, "SELECT at FROM public.frozen")
	var got, want []uint64
	for _, last := range []uint64{0, uint64(now.UnixMicro()) - 1, uint64(now.UnixMicro()), uint64(now.UnixMicro()) + 100} {
		want = append(want, coord.NextVersion(last, now))
		got = append(got, uint64(ask[int64](t, url, "SELECT taskengine.coord_later($1)", int64(last))))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the versions are %v, want %v", got, want)
	}
}
