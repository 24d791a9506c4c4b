package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// vector is a request by SQL: a task that may be in its way, the request, and the rules of its type. Times are so far from
// each other that a slow test decides nothing.
type vector struct {
	rand     *rand.Rand
	now      time.Time
	rules    task.Rules
	inherits bool
	holder   *task.Task // nil for none
	row      *task.Task // as the submitter has it
	at       *time.Time
	expires  *time.Time
	priority *int
	chosen   bool // whether the ID is that of the request
}

const vectorPriority = 6 // of a request without one

func pickOne[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// newVector returns a random vector with a type, keys and an ordering key that no other one has.
func newVector(r *rand.Rand, ids *task.IDs, n int) *vector {
	v := &vector{rand: r, now: time.Now().UTC().Truncate(time.Microsecond), inherits: r.IntN(2) == 0}
	v.rules = task.Rules{
		OnConflict: task.OnConflict(r.IntN(5)), Window: pickOne(r, time.Nanosecond, time.Hour), MaxLateness: pickOne(r, 0, 30*time.Minute),
		QueueTimeout: pickOne(r, 0, time.Hour), TotalTimeout: pickOne(r, 0, 5*time.Hour),
	}
	v.row = &task.Task{ID: ids.Next(v.now), Type: fmt.Sprint("type ", n), Key: "k", Payload: []byte("new"), Headers: map[string]string{"is": "new"}}
	if v.row.OrderingKey = pickOne(r, "", fmt.Sprint("order ", n)); v.row.OrderingKey != "" {
		v.row.Inherits = v.inherits
	}
	moment := func(after time.Duration) *time.Time { return new(v.now.Add(after)) }
	v.at = pickOne(r, nil, moment(-2*time.Hour), moment(-time.Minute), moment(time.Hour), moment(3*time.Hour))
	v.expires = pickOne(r, nil, moment(30*time.Minute), moment(4*time.Hour))
	v.priority = pickOne(r, nil, new(2))
	if v.at != nil {
		v.row.ReadyAt = *v.at
	}
	if v.expires != nil {
		v.row.ExpiresAt = *v.expires
	}
	if v.row.Priority = vectorPriority; v.priority != nil {
		v.row.Priority = uint8(*v.priority)
	}
	v.chosen = r.IntN(3) == 0
	if r.IntN(8) > 0 {
		v.holder = v.newHolder(ids)
	}
	return v
}

// newHolder returns a task that has the key, and perhaps the ID, of the request.
func (v *vector) newHolder(ids *task.IDs) *task.Task {
	r, since := v.rand, v.now.Add(pickOne(v.rand, -10*time.Minute, -3*time.Hour))
	t := &task.Task{
		ID: ids.Next(since), Type: v.row.Type, Key: "k", OrderingKey: v.row.OrderingKey, Inherits: v.row.Inherits, Priority: uint8(r.IntN(10)),
		Payload: []byte("old"), Headers: map[string]string{"was": "old"}, ExpiresAt: pickOne(r, time.Time{}, v.now.Add(2*time.Hour)),
		ReadyAt: pickOne(r, time.Time{}, v.now.Add(time.Hour), v.now.Add(6*time.Hour)),
	}
	if v.chosen && r.IntN(2) == 0 {
		t.ID = v.row.ID
	}
	(&v.rules).Create(since, t)
	t.Notes = task.NewNotes(task.Progress{}, []byte(pickOne(r, "", "checkpoint")))
	if t.OrderingKey != "" {
		t.Turn = pickOne(r, task.Behind, task.Head)
	}
	for _, to := range pickOne(r, nil, nil, nil, []task.State{task.Processing}, []task.State{task.Processing, task.Waiting},
		[]task.State{task.Processing, task.Done}, []task.State{task.Processing, task.Error}, []task.State{task.Cancelled},
		[]task.State{task.Processing, task.Error, task.Failed}) {
		t.Turn = max(t.Turn, pickOne(r, t.Turn, task.Head))
		if t.OrderingKey == "" {
			t.Turn = task.Unordered
		} else if to == task.Processing {
			t.Turn = task.Head
		}
		t.State, t.NextEventAt = map[bool]task.State{true: task.Submitted, false: t.State}[to == task.Processing], time.Time{}
		c := task.Change{Ref: t.Ref(), To: to, At: since, Owner: task.ID{9}, Outcome: pickOne(r, task.Completed, task.Errored)}
		if !to.Live() || to == task.Waiting {
			c.NextEventAt = v.now.Add(24 * time.Hour)
		}
		c.Apply(t)
	}
	return t
}

// add makes the request, and returns the task of its answer, and the outcome of the request.
func (v *vector) add(t *testing.T, c *pgx.Conn) (id task.ID, what task.Resolution) {
	t.Helper()
	var text, outcome string
	var created bool
	var chosen, ordering *string
	if v.chosen {
		chosen = new(v.row.ID.String())
	}
	if v.row.OrderingKey != "" {
		ordering = &v.row.OrderingKey
	}
	err := c.QueryRow(t.Context(), `select (a).id::text, (a).created, (a).outcome from (
	select taskengine.add_bytes($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb, $9::text::uuid) as a) x`,
		v.row.Type, v.row.Payload, v.row.Key, ordering, v.priority, v.at, v.expires, `{"is": "new"}`, chosen).Scan(&text, &created, &outcome)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case "TE002":
			return id, task.Rejects
		case "TE003":
			return id, task.IsLate
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if id, err = task.ParseID(text); err != nil {
		t.Fatal(err)
	}
	all := map[string]task.Resolution{"created": task.Adds, "existing": task.Exists, "already_done": task.AlreadyDone, "replaced": task.Replaces}
	what, known := all[outcome]
	if !known || created != (what == task.Adds) {
		t.Errorf("the outcome is %q, created is %t", outcome, created)
	}
	return id, what
}

// check makes the request, and compares the rows after it with the result of [task.Resolve]. It returns that.
func (v *vector) check(t *testing.T, s *postgres.Store, c *pgx.Conn) task.Resolution {
	t.Helper()
	if err := s.SetRules(t.Context(), storage.TypeRules{
		Type: v.row.Type, Priority: vectorPriority, MaxPayload: 1000, MaxResult: 1000, KeepDone: time.Hour, Inherits: v.inherits,
		QueueTimeout: v.rules.QueueTimeout, TotalTimeout: v.rules.TotalTimeout, MaxLateness: v.rules.MaxLateness,
		Unique: storage.UniqueRules{OnConflict: v.rules.OnConflict.String(), Window: v.rules.Window},
	}); err != nil {
		t.Fatal(err)
	}
	get := func(id task.ID) *task.Task {
		found, err := s.Get(t.Context(), id)
		if err != nil {
			t.Error(err)
			return new(task.Task)
		}
		return found
	}
	var was *task.Task
	if v.holder != nil {
		if _, err := s.Insert(t.Context(), v.holder); err != nil {
			t.Fatal(err)
		}
		was = get(v.holder.ID)
	}
	id, got := v.add(t, c)
	now, is := time.Now(), new(task.Task)
	switch {
	case got == task.Adds:
		is = get(id)
		now, v.row.ID = is.CreatedAt, id
	case got == task.Replaces:
		now = get(id).UpdatedAt
	}
	want, change := task.Resolve(now, was, v.row, &v.rules)
	if got != want && !(got == task.Adds && want == task.FreesKey) {
		t.Errorf("the request %v, want %v", got, want)
		return want
	}
	if got == task.Adds {
		row := v.row.Clone()
		v.rules.Create(now, row)
		row.Shard, row.Seq = id.Shard(), is.Seq
		if row.OrderingKey != "" {
			row.Shard = task.ShardOf(row.OrderingKey)
		}
		if diff := cmp.Diff(row, is); diff != "" {
			t.Errorf("the row: (-rules +SQL)\n%s", diff)
		}
	}
	if was == nil {
		return want
	}
	if want != task.Adds && got != task.Adds && want != task.Rejects && want != task.IsLate && id != was.ID {
		t.Errorf("the answer is %v, the task that exists is %v", id, was.ID)
	}
	after := was.Clone()
	if change != nil {
		change.At = now
		if !change.Apply(after) {
			t.Errorf("the change does not apply: %+v", change)
		}
	}
	if diff := cmp.Diff(after, get(was.ID)); diff != "" {
		t.Errorf("the task that exists, after the request %v: (-rules +SQL)\n%s", want, diff)
	}
	return want
}

// Random requests by SQL have the effects that task.Resolve gives them, and make the rows of task.Rules.
func TestAddFromSQLDoesWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	seen := make(map[task.Resolution]int)
	for _, seed := range []uint64{1, rand.Uint64()} {
		r, ids := rand.New(rand.NewPCG(seed, 1)), task.NewIDs([32]byte{byte(seed), byte(seed >> 8)})
		for n := range 300 {
			v := newVector(r, ids, int(seed%1_000_000)*1000+n)
			if seen[v.check(t, s, c)]++; t.Failed() {
				t.Fatalf("seed %d, vector %d: rules %+v, request %+v, the task that exists %+v", seed, n, v.rules, v.row, v.holder)
			}
		}
	}
	for what := task.Adds; what <= task.FreesKey; what++ {
		if seen[what] < 3 {
			t.Errorf("%d of the requests %v", seen[what], what)
		}
	}
}
