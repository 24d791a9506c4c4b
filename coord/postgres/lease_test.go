//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

const beat = `SELECT taskengine.coord_beat(jsonb_build_object('session', $1::text, 'beat', $2::int, 'lease', $3::int,
	'open', $4::bool, 'roles', array_to_json($5::text[])))->>'alive' = 'true'`

func TestAHeartbeatThatComesLateChangesNothing(t *testing.T) {
	url, me := database(t), task.ID{1}.String()
	for _, c := range []struct {
		why    string
		number int
		open   bool
		roles  []string
		alive  bool
	}{
		{"a session begins", 1, true, []string{"role"}, true},
		{"its second heartbeat", 3, false, []string{"role"}, true},
		{"an older heartbeat, which did not know of the role", 2, false, []string{}, false},
		{"the same again", 3, false, []string{}, false},
		{"the beginning again", 1, true, []string{}, false},
	} {
		if alive := ask[bool](t, url, beat, me, c.number, 60_000, c.open, c.roles); alive != c.alive {
			t.Errorf("%s: alive is %v", c.why, alive)
		}
		if leader := ask[string](t, url, "SELECT session::text FROM taskengine.leader WHERE role = 'role'"); leader != me {
			t.Errorf("%s: the leader is %s", c.why, leader)
		}
	}
}

func TestASessionThatIsOverIsNotRenewed(t *testing.T) {
	url, me, other := database(t), task.ID{1}.String(), task.ID{2}.String()
	roles := []string{"role"}
	if !ask[bool](t, url, beat, me, 1, 60_000, true, roles) {
		t.Fatal("a session does not begin")
	}
	ask[string](t, url, "UPDATE taskengine.session SET expires_at = clock_timestamp() RETURNING id::text")
	for number, open := range map[int]bool{2: false, 3: true} {
		if ask[bool](t, url, beat, me, number, 60_000, open, roles) {
			t.Errorf("a session was renewed after its end (open: %v)", open)
		}
	}
	if !ask[bool](t, url, beat, other, 1, 60_000, true, roles) {
		t.Fatal("another session does not begin")
	}
	leader := ask[string](t, url, "SELECT session || ' ' || term FROM taskengine.leader WHERE role = 'role'")
	if leader != other+" 2" {
		t.Errorf("session and term of the leader are %s", leader)
	}
	if ask[bool](t, url, beat, me, 4, 60_000, false, roles) {
		t.Error("a session was renewed after others had ended it")
	}
}

func TestAnotherIsolationLevelIsRefused(t *testing.T) {
	url := database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), "SET default_transaction_isolation = 'repeatable read'")
	if err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"coord_beat", "coord_renew", "coord_orders", "coord_draw"} {
		_, err := conn.Exec(t.Context(), "SELECT taskengine."+function+"('{}')")
		if err == nil || !strings.Contains(err.Error(), "read committed") {
			t.Errorf("%s returned %v", function, err)
		}
	}
}

// reign is one leadership.
type reign struct{ ctx context.Context }

// lead campaigns until the test ends, and sends every reign.
func lead(t *testing.T, n *node, role string) <-chan reign {
	reigns := make(chan reign)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_ = n.Lead(ctx, role, func(ctx context.Context) error {
			select {
			case reigns <- reign{ctx}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		})
	}()
	return reigns
}

// join joins until the test ends. list returns the newest list of members, and result gets the result of Join.
func join(t *testing.T, n *node, id task.ID) (list func() []coord.Member, result <-chan error) {
	var mu sync.Mutex
	var newest []coord.Member
	returned := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		returned <- n.Join(ctx, coord.Member{Incarnation: id, Name: "n"}, func(list []coord.Member) {
			mu.Lock()
			defer mu.Unlock()
			newest = list
		})
	}()
	return func() []coord.Member {
		mu.Lock()
		defer mu.Unlock()
		return newest
	}, returned
}

func TestALeaseLastsAsLongAsItIsRenewed(t *testing.T) {
	retried(t, func(t *testing.T, lease time.Duration) (lapsed bool) {
		url := database(t)
		n := connect(t, url, setup{Options: postgres.Options{Lease: lease}})
		r := receive(t, "the leadership", lead(t, n, "role"))
		beats := func() int64 { return ask[int64](t, url, "SELECT coalesce(max(beats), 0) FROM taskengine.session") }
		first := beats()
		eventually(t, "heartbeats for longer than a lease", func() bool { return r.ctx.Err() != nil || beats() > first+2*lease.Microseconds() })
		if r.ctx.Err() != nil {
			return true
		}
		n.sever(t)
		receive(t, "the end of the leader's context", r.ctx.Done())
		if cause := context.Cause(r.ctx); !errors.Is(cause, postgres.ErrLeaseOver) {
			t.Errorf("the context's cause is %v", cause)
		}
		return false
	})
}

// The test moves the ends of leases instead of setting the clock back. A session that no process renews
// ends one lease after the next heartbeat of another, and a session that is renewed stays.
func TestAClockThatIsSetBackKeepsNoDeadSessionAlive(t *testing.T) {
	url := database(t)
	dead, alive, me := task.ID{1}.String(), task.ID{2}.String(), task.ID{3}.String()
	for _, session := range []string{dead, alive} {
		if !ask[bool](t, url, beat, session, 1, 60_000, true, []string{"role of " + session}) {
			t.Fatal("a session does not begin")
		}
	}
	execute(t, url, "UPDATE taskengine.session SET expires_at = expires_at + interval '1 hour'")
	within := func(session string) bool {
		return ask[bool](t, url, "SELECT expires_at <= clock_timestamp() + interval '60 s' FROM taskengine.session WHERE id = $1::uuid", session)
	}
	if !ask[bool](t, url, beat, me, 1, 30_000, true, []string{}) {
		t.Fatal("a session does not begin")
	}
	for _, session := range []string{dead, alive} {
		if !within(session) {
			t.Errorf("session %s lasts longer than its lease", session)
		}
	}
	if !ask[bool](t, url, beat, alive, 2, 60_000, false, []string{"role of " + alive}) {
		t.Error("a session that is renewed has ended")
	}
	if !ask[bool](t, url, "SELECT expires_at > clock_timestamp() FROM taskengine.session WHERE id = $1::uuid", dead) {
		t.Error("a session has ended before its lease was over by the new time")
	}
}

func TestHeartbeatsTellTheClockOfTheProcess(t *testing.T) {
	url := database(t)
	receive(t, "the leadership", lead(t, connect(t, url, setup{}), "role"))
	beats := ask[int64](t, url, "SELECT beats FROM taskengine.session")
	expires := ask[time.Time](t, url, "SELECT expires_at FROM taskengine.session WHERE beats >= $1", beats)
	if ahead, ok := postgres.Ahead(beats, expires); !ok || ahead.Abs() > time.Minute {
		t.Errorf("the clock of this machine is ahead of itself by %v (%v)", ahead, ok)
	}
	if _, ok := postgres.Ahead(1000, expires); ok {
		t.Error("an older program, which counts its heartbeats, sends its clock")
	}
}

func TestWhatIsRemovedByHandIsLost(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{Options: postgres.Options{Lease: time.Hour}}) // it renews it when it campaigns for another role
	renew := func() {
		receive(t, "the leadership of another role", lead(t, n, fmt.Sprint("role ", time.Now().UnixNano())))
	}
	reigns := lead(t, n, "role")
	first := receive(t, "the leadership", reigns)
	list, result := join(t, n, task.ID{1})
	eventually(t, "the member", func() bool { return len(list()) == 1 })

	execute(t, url, "UPDATE taskengine.leader SET session = '00000000-0000-0000-0000-000000000001'")
	renew()
	receive(t, "the end of the leader's context", first.ctx.Done())
	if cause := context.Cause(first.ctx); !errors.Is(cause, postgres.ErrLeaseOver) {
		t.Errorf("the context's cause is %v", cause)
	}
	execute(t, url, "UPDATE taskengine.leader SET session = NULL WHERE role = 'role'")
	renew()
	again := receive(t, "the leadership", reigns)

	execute(t, url, "DELETE FROM taskengine.member")
	renew()
	if err := receive(t, "Join to return", result); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Join returned %v", err)
	}
	if err := again.ctx.Err(); err != nil {
		t.Errorf("the leader's context has ended, too: %v", err)
	}
}

func TestAnIncarnationLivesOnce(t *testing.T) {
	url := database(t)
	a, b := connect(t, url, setup{}), connect(t, url, setup{})
	list, first := join(t, a, task.ID{1})
	eventually(t, "the member", func() bool { return len(list()) == 1 })
	_, twin := join(t, b, task.ID{1})
	if err := receive(t, "Join to return", twin); err == nil {
		t.Error("an incarnation joined twice")
	}
	a.sever(t)
	if err := receive(t, "Join to return", first); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Join returned %v", err)
	}
	eventually(t, "the death of the member", func() bool {
		return ask[bool](t, url, "SELECT died_at IS NOT NULL FROM taskengine.member")
	})
	for _, n := range []*node{a, b} {
		_, late := join(t, n, task.ID{1})
		if err := receive(t, "Join to return", late); err == nil {
			t.Error("a dead incarnation joined")
		}
	}
}

func TestCloseGivesEverythingBackAtOnce(t *testing.T) {
	url := database(t)
	const never = time.Hour // of nodes that have to wait for a lease
	a := connect(t, url, setup{Options: postgres.Options{Lease: never}})
	b := connect(t, url, setup{Options: postgres.Options{Lease: never}})
	mine := receive(t, "the leadership", lead(t, a, "role"))
	_, result := join(t, a, task.ID{1})
	permits := hold(t, a)
	permits.order("limit", 2, 2)
	permits.gets(t, "limit", 2)
	theirs := lead(t, b, "role")
	list, _ := join(t, b, task.ID{2})
	eventually(t, "both members", func() bool { return len(list()) == 2 })

	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, "the end of the leader's context", mine.ctx.Done())
	if err := receive(t, "Hold to return", permits.result); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Hold returned %v, want %v", err, coord.ErrClosed)
	}
	if err := receive(t, "Join to return", result); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Join returned %v, want %v", err, coord.ErrClosed)
	}
	receive(t, "the leadership of another", theirs)
	eventually(t, "the list of members", func() bool { return len(list()) == 1 })
	other := hold(t, b)
	other.order("limit", 2, 2)
	other.gets(t, "limit", 2)

	_, noHolders := a.Holders(t.Context(), "limit")
	_, noDraw := a.Draw(t.Context(), coord.Draw{Name: "rate", Interval: time.Second, Burst: 1, Tokens: 1})
	for what, err := range map[string]error{
		"Lead":      a.Lead(t.Context(), "role", func(context.Context) error { return nil }),
		"Join":      a.Join(t.Context(), coord.Member{Incarnation: task.ID{3}}, func([]coord.Member) {}),
		"Hold":      a.Hold(t.Context(), task.ID{4}, func([]coord.Holding) {}),
		"Holders":   noHolders,
		"Draw":      noDraw,
		"Swap":      swap(a, "v"),
		"Settings":  settings(a),
		"Watch":     a.Watch(t.Context(), "name", func([]coord.Setting) {}),
		"Publish":   a.Publish(t.Context(), coord.WakeAll()),
		"Subscribe": a.Subscribe(t.Context(), func([]task.Hint) {}),
	} {
		if !errors.Is(err, coord.ErrClosed) {
			t.Errorf("%s returned %v, want %v", what, err, coord.ErrClosed)
		}
	}
}

// counter counts records by their level.
type counter struct {
	slog.Handler
	mu    sync.Mutex
	count map[slog.Level]int // guarded by mu
}

func (c *counter) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[r.Level]++
	return c.Handler.Handle(ctx, r)
}

func (c *counter) of(level slog.Level) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[level]
}

func TestACrashOfTheServerEndsLeasesAndEverythingBeginsAnewAfterIt(t *testing.T) {
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	url := own.Database(t)
	prepare(t, url, "taskengine")
	records := &counter{Handler: slog.NewTextHandler(t.Output(), nil), count: map[slog.Level]int{}}
	n := connect(t, url, setup{Options: postgres.Options{Lease: patientLease, Log: slog.New(records)}})

	reigns := lead(t, n, "role")
	before := receive(t, "the leadership", reigns)
	list, result := join(t, n, task.ID{1})
	eventually(t, "the member", func() bool { return len(list()) == 1 })
	permits := hold(t, n)
	permits.order("limit", 1, 1)
	permits.gets(t, "limit", 1)
	values := make(chan []coord.Setting, 100)
	watching := make(chan error, 1)
	go func() {
		watching <- n.Watch(t.Context(), "name", func(all []coord.Setting) { values <- all })
	}()
	receive(t, "the first value", values)

	if err := own.Crash(); err != nil {
		t.Fatal(err)
	}
	receive(t, "the end of the leader's context", before.ctx.Done())
	if err := receive(t, "Hold to return", permits.result); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Hold returned %v", err)
	}
	if err := receive(t, "Join to return", result); !errors.Is(err, postgres.ErrLeaseOver) {
		t.Errorf("Join returned %v", err)
	}
	if err := swap(n, "lost"); err == nil {
		t.Error("Swap returned nil though the server is down")
	}
	if err := settings(n); err == nil {
		t.Error("Settings returned nil though the server is down")
	}
	if err := n.Publish(t.Context(), hint(1)); err != nil {
		t.Errorf("Publish returned %v: a hint may be lost", err)
	}
	again := holdLater(t, n) // the database is down
	list, _ = join(t, n, task.ID{2})

	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	receive(t, "the leadership", reigns)
	receive(t, "the first call of fn", again.lives)
	again.order("limit", 1, 1)
	again.gets(t, "limit", 1)
	eventually(t, "the new member alone", func() bool { return len(list()) == 1 && list()[0].Incarnation == task.ID{2} })
	if err := swap(n, "new"); err != nil {
		t.Errorf("Swap returned %v", err)
	}
	if all := receive(t, "the new value", values); len(all) != 1 || string(all[0].Value) != "new" {
		t.Errorf("the watch got %v", all)
	}
	eventually(t, "the news that the server is back", func() bool { return records.of(slog.LevelInfo) > 0 })
	if warned, back := records.of(slog.LevelWarn), records.of(slog.LevelInfo); warned > back+1 || warned > 3 {
		t.Errorf("%d warnings, and %d times back, for one outage", warned, back)
	}
}

// statements records the statements of a node.
type statements struct {
	mu  sync.Mutex
	all []statement // guarded by mu
}

type statement struct {
	at  time.Time
	sql string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, statement{time.Now(), q.SQL})
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// with returns the statements that contain text.
func (s *statements) with(text string) []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(s statement) bool { return !strings.Contains(s.sql, text) })
}

func (s *statements) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// TestAnIdleNodeSendsHeartbeatsAlone counts the statements of idle nodes that use every port. A third of
// the default lease is 1.3 s.
func TestAnIdleNodeSendsHeartbeatsAlone(t *testing.T) { retried(t, idle) }

func idle(t *testing.T, lease time.Duration) (lapsed bool) {
	const beats = 6
	url := database(t)
	var sent [3]statements
	var ends []<-chan error
	isLapsed := func() bool { return slices.ContainsFunc(ends, func(end <-chan error) bool { return len(end) > 0 }) }
	for i := range sent {
		n := connect(t, url, setup{tracer: &sent[i], Options: postgres.Options{Lease: lease}})
		list, end := join(t, n, task.ID{byte(i + 1)})
		for _, role := range []string{"timer", "healer", "cleaner", "monitor"} {
			lead(t, n, role)
		}
		h := hold(t, n)
		ends = append(ends, end, h.result)
		h.order("limit", 1, 2) // the third one waits
		h.order(fmt.Sprint("limit ", i), 1, 1)
		subscribe(t, n)
		watched := make(chan struct{}, 1)
		go func() { _ = n.Watch(t.Context(), "name", func([]coord.Setting) { watched <- struct{}{} }) }()
		receive(t, "the first value", watched)
		eventually(t, "the permits and the list of members", func() bool {
			return isLapsed() || h.has("limit", 1-i/2) && h.has(fmt.Sprint("limit ", i), 1) && len(list()) == i+1 && n.Listening()
		})
	}
	for i := range sent { // all effects of this are over after two heartbeats
		start := len(sent[i].with("coord_renew"))
		eventually(t, "heartbeats", func() bool { return len(sent[i].with("coord_renew")) > start+2 })
	}
	for i := range sent {
		sent[i].forget()
	}
	var others []string
	for i := range sent {
		eventually(t, "heartbeats", func() bool { return len(sent[i].with("coord_renew")) >= beats })
		for _, s := range sent[i].with("") {
			if !strings.Contains(s.sql, "coord_renew") && s.sql != "-- ping" { // every five leases
				others = append(others, s.sql)
			}
		}
	}
	if isLapsed() {
		return true
	}
	for _, sql := range others {
		t.Errorf("an idle node sends %s", sql)
	}
	for i := range sent {
		all := sent[i].with("coord_renew")
		gaps := time.Duration(len(all) - 2) // the first of them may have been late
		if took := all[len(all)-1].at.Sub(all[0].at); took < gaps*lease*31/100 {
			t.Errorf("%d heartbeats within %v, with a lease of %v", len(all), took, lease)
		}
	}
	return false
}
