package health_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// examine returns the facts about the database of a store.
func examine(t *testing.T, s *postgres.Store) *health.Report {
	t.Helper()
	h, err := health.Examine(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// join starts a node of a cluster that handles one type. It is closed with the test.
func join(t *testing.T, s *postgres.Store, typ string, handler task.HandlerFunc) *engine.Engine {
	t.Helper()
	c, err := coordination.New(s.Pool(), coordination.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	n, err := engine.Open(t.Context(), engine.Config{
		Store: s, Coordinator: c.Coordinator(), Handlers: map[string]task.Handler{typ: handler},
		Policies: policy.Set{Slots: 20, Types: map[string]policy.Type{typ: policy.DefaultType()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestHealthOfANewDatabase(t *testing.T) {
	h := examine(t, postgrestest.Open(t, postgrestest.Tables(t, server)))
	if h.Schema != h.Want || h.Server/10000 < 14 || !h.Sees || h.Settings["fsync"] != "on" || h.Connections < 1 {
		t.Errorf("it is %+v", h)
	}
	if h.Rows != (health.Rows{}) || len(h.Nodes)+len(h.Over)+len(h.Apart)+len(h.Idle) != 0 {
		t.Errorf("there are things in it: %+v", h)
	}
	if h.Skew.Abs() > h.SkewWithin+time.Second || time.Since(h.Now).Abs() > time.Hour {
		t.Errorf("its clock is off by %v, give or take %v", h.Skew, h.SkewWithin)
	}
	indexes := 0
	for _, table := range h.Tables {
		if !table.Valid || table.Bytes == 0 && table.Index {
			t.Errorf("a table is %+v", table)
		}
		if table.Index {
			indexes++
		}
	}
	if indexes < 3 || len(h.Tables) != indexes+2 {
		t.Errorf("the tables are %+v", h.Tables)
	}
}

func TestHealthTellsTheTasksThatAreStuck(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	now := time.Now()
	alive, dead, other := task.ID{1}, task.ID{2}, task.ID{3}
	pgtest.Exec(t, c, `
insert into taskengine.session (id, expires_at, beats, lasts) values ('00000000-0000-0000-0000-000000000001', now() + interval '1 hour', 1, '4 s');
insert into taskengine.member (incarnation, session, name, handlers, selectors, labels, draining, address, version, joined_at, died_at) values
	('01000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000001', 'alice', '{}', '{}', '{}', false, '', '', now() - interval '2 minutes', null),
	('02000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000002', 'bob', '{}', '{}', '{}', false, '', '', now() - interval '1 hour', now() - interval '10 minutes')`)
	var ts []*task.Task
	add := func(state task.State, edit func(*task.Task)) {
		t := &task.Task{ID: task.ID{9, byte(len(ts))}, Version: 1, State: state, Type: "mail", CreatedAt: now, ReadyAt: now, UpdatedAt: now, StartedAt: now}
		edit(t)
		ts = append(ts, t)
	}
	for _, owner := range []task.ID{alive, dead, other} {
		add(task.Processing, func(t *task.Task) { t.Owner = owner })
	}
	for _, late := range []time.Duration{time.Hour, time.Second, -time.Hour} {
		for _, state := range []task.State{task.Waiting, task.Submitted, task.Processing} {
			add(state, func(t *task.Task) { t.NextEventAt, t.Owner = now.Add(-late), alive })
		}
	}
	for _, owner := range []task.ID{alive, dead} {
		add(task.Processing, func(t *task.Task) { t.ExpiresAt, t.Owner = now.Add(-time.Hour), owner })
	}
	add(task.Submitted, func(t *task.Task) { t.ReadyAt, t.Type = now.Add(-5*time.Hour), "old" })
	add(task.Submitted, func(t *task.Task) {
		t.ReadyAt, t.OrderingKey, t.Turn, t.NextEventAt = now.Add(-9*time.Hour), "k", task.Behind, now.Add(-time.Hour)
	})
	add(task.Error, func(*task.Task) {})
	add(task.Done, func(t *task.Task) { t.NextEventAt, t.UpdatedAt = now.Add(-999*time.Hour), now.Add(-1000*time.Hour) })
	if _, err := s.Insert(t.Context(), ts...); err != nil {
		t.Fatal(err)
	}
	h := examine(t, s)
	stamp := func(at time.Time) time.Time { return task.Stamp(at) }
	want := health.Rows{
		Live: 17, Ready: 4, Behind: 1, Running: 8, Errors: 1, OldestReady: stamp(now.Add(-5 * time.Hour)), OldestReadyType: "old",
		Orphans: 3, OrphansSince: stamp(now), LateRunning: 1, LateWaiting: 1, LateWaitingSince: stamp(now.Add(-time.Hour)), LateReady: 2, Newest: stamp(now),
	}
	if h.Rows != want {
		t.Errorf("the rows are\n%+v, want\n%+v", h.Rows, want)
	}
	if len(h.Nodes) != 2 || h.Nodes[0].Name != "bob" || h.Nodes[0].DiedAt.IsZero() || h.Nodes[1].Incarnation != alive || !h.Nodes[1].DiedAt.IsZero() {
		t.Errorf("the nodes are %+v", h.Nodes)
	}
	if len(h.Over) != 1 || h.Ended == 0 {
		t.Errorf("tables that are not wanted any more are %q, of %d bytes", h.Over, h.Ended)
	}
	name := h.Over[0]
	var class string
	if err := c.QueryRow(t.Context(), "select inhparent::regclass::text from pg_inherits where inhrelid = ('taskengine.' || $1)::regclass", name).Scan(&class); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, c, "alter table "+class+" detach partition taskengine."+name)
	if h := examine(t, s); !slices.Equal(h.Apart, []string{name}) || len(h.Over) != 0 {
		t.Errorf("detached tables are %q", h.Apart)
	}
}

func TestHealthTellsWhatRunsThoughItHasExpired(t *testing.T) {
	url := server.Database(t)
	began, end := make(chan task.ID), make(chan struct{})
	s := postgrestest.Open(t, url)
	n := join(t, s, "long", func(_ context.Context, t *task.Task) ([]byte, error) {
		began <- t.ID
		<-end
		return nil, nil
	})
	defer close(end)
	if _, err := n.Submit(t.Context(), engine.Request{Type: "long"}, engine.Request{Type: "long", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	<-began
	<-began
	if r := examine(t, s).Rows; r.Running != 2 || r.LateRunning != 0 {
		t.Errorf("two tasks run, one of them for an hour at most: %+v", r)
	}
	pgtest.Exec(t, pgtest.Connect(t, url), `
update taskengine.task set started_at = started_at - 7200000000, next_event_at = next_event_at - 7200000000, updated_at = updated_at - 7200000000,
	expires_at = case when expires_at > 0 then expires_at - 7200000000 else expires_at end`)
	if r := examine(t, s).Rows; r.Running != 2 || r.LateRunning != 1 || r.Orphans != 0 {
		t.Errorf("two hours later they run, and that one has expired: %+v", r)
	}
}

func TestHealthComparesTheClocksOfNodesByTheirHeartbeats(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	join(t, s, "mail", func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	for len(examine(t, s).Nodes) == 0 { // it joins
		time.Sleep(10 * time.Millisecond)
	}
	far := time.Now().Add(2 * time.Hour).UnixMicro()
	pgtest.Exec(t, c, "update taskengine.member set name = 'new', joined_at = joined_at - interval '1 hour'", fmt.Sprintf(`
insert into taskengine.session (id, expires_at, beats, lasts) values
	('00000000-0000-0000-0000-000000000001', now() + interval '1 hour', %d, '4 s'),
	('00000000-0000-0000-0000-000000000002', now() + interval '1 hour', 99, '4 s'),
	('00000000-0000-0000-0000-000000000003', now() - interval '1 hour', %[1]d, '4 s');
insert into taskengine.member (incarnation, session, name, handlers, selectors, labels, draining, address, version, joined_at)
	select ('01000000-0000-0000-0000-00000000000' || n)::uuid, ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'other ' || n, '{}', '{}', '{}', false, '', '', now()
	from generate_series(1, 3) n`, far))
	clocks := examine(t, s).Clocks
	if len(clocks) != 2 || clocks[0].Name != "new" || clocks[1].Name != "other 1" {
		t.Fatalf("the clocks are %v", clocks)
	}
	if off := clocks[0].Ahead.Abs(); off > 10*time.Minute {
		t.Errorf("the clock of this machine is %v ahead of itself", clocks[0].Ahead)
	}
	if off := (clocks[1].Ahead - time.Hour).Abs(); off > 10*time.Minute {
		t.Errorf("a clock that is an hour ahead is %v ahead", clocks[1].Ahead)
	}
}

func TestHealthTellsWhatHoldsBackVacuum(t *testing.T) {
	url := server.Database(t)
	s, c, idle := postgrestest.Open(t, url), pgtest.Connect(t, url+"&application_name=report"), pgtest.Connect(t, url)
	pgtest.Exec(t, c, "begin isolation level repeatable read", "select count(*) from taskengine.task")
	pgtest.Exec(t, idle, "begin")
	h := examine(t, s)
	pid := int(c.PgConn().PID())
	at := slices.IndexFunc(h.Holders, func(o health.Holder) bool { return o.PID == pid })
	if at < 0 || h.Holders[at].Kind != "session" || h.Holders[at].Since.IsZero() || h.Holders[at].Age < 0 {
		t.Errorf("the holders are %+v", h.Holders)
	}
	if len(h.Idle) != 2 || !h.Idle[0].Held || h.Idle[0].PID != pid || h.Idle[0].Application != "report" || h.Idle[1].Held {
		t.Errorf("the idle ones are %+v", h.Idle)
	}
}

func TestHealthTellsCountsThatAreWrong(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	pgtest.Exec(t, c, "select taskengine.add('ship') from generate_series(1, 3)")
	if h := examine(t, s); len(h.Counts) > 0 {
		t.Errorf("right counts are reported as wrong: %+v", h.Counts)
	}
	pgtest.Exec(t, c, "update taskengine.tally set n = n + 7", "insert into taskengine.tally (type, state, n, folded) values ('unheard of', 2, -3, true)")
	want := []health.Count{{State: task.Submitted, Type: "ship", Counted: 24, There: 3}, {State: task.Submitted, Type: "unheard of", Counted: -3}}
	if h := examine(t, s); !slices.Equal(h.Counts, want) {
		t.Errorf("it reports the wrong counts %+v", h.Counts)
	}
	pgtest.Exec(t, c, "select taskengine.recount()")
	if h := examine(t, s); len(h.Counts) > 0 {
		t.Errorf("after a recount it reports the wrong counts %+v", h.Counts)
	}
}

func TestHealthIsReportedToARoleWithFewRights(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "drop role if exists modest", "create role modest login",
		"grant usage on schema taskengine to modest; grant select on all tables in schema taskengine to modest")
	t.Cleanup(func() { pgtest.Exec(t, pgtest.Connect(t, url), "drop owned by modest", "drop role modest") })
	s, err := postgres.Open(t.Context(), url+"&user=modest", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h := examine(t, s); h.Sees {
		t.Error("it sees everything")
	}
}
