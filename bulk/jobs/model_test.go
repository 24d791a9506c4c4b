package jobs_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// storm decides which calls of a store fail, before or after they are made.
type storm struct {
	mu    sync.Mutex
	rng   *rand.Rand // guarded by mu
	oneIn int        // guarded by mu: of so many calls one fails; 0 is none
	calls int        // guarded by mu: calls since rage, but for Get
	left  int        // guarded by mu: calls that may still fail
	fell  int        // guarded by mu: calls that have failed
}

var errStorm = errors.New("the disk is wet")

func (s *storm) decide(c storagetest.Call) storagetest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	oneIn := s.oneIn
	if c == storagetest.Get {
		oneIn *= 200 // a job reads each task of a plan
	} else {
		s.calls++
	}
	if oneIn == 0 || s.left == 0 || s.calls < oneIn && s.rng.IntN(oneIn) > 0 {
		return storagetest.Fault{}
	}
	s.left--
	s.fell++
	if s.rng.IntN(2) == 0 {
		return storagetest.Fault{Before: errStorm}
	}
	return storagetest.Fault{After: errStorm}
}

// rage has one of so many calls fail from now on, a few in all; 0 is none. After a failure an engine pauses. It returns how many calls have failed so far.
func (s *storm) rage(oneIn int) (fell int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oneIn, s.calls, s.left = oneIn, 0, 1+s.rng.IntN(2)
	return s.fell
}

// searched is a store in which tasks are found.
type searched interface {
	storage.Store
	storage.Inspector
	storage.KeyFinder
}

// stormy is a store with faults.
type stormy struct {
	storage.Store
	storage.Inspector
	storage.KeyFinder
}

func (s *storm) below(store searched) storage.Store {
	return stormy{storagetest.Faulty(store, s.decide), store, store}
}

const modelTasks = 1200 // more than a plan has

// model is a node that runs no tasks while jobs change them.
type model struct {
	*node
	weather *storm
	rng     *rand.Rand // owned by the goroutine of the test
	ids     []task.ID
}

func newModel(t *testing.T, open func(*testing.T, *storm) storage.Store) *model {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	weather := &storm{rng: rand.New(rand.NewPCG(seed, 1))}
	return &model{node: start(t, open(t, weather)), weather: weather, rng: rand.New(rand.NewPCG(seed, 2))}
}

// Each job changes the tasks that a loop over all tasks would, and each of them once, also if the store fails now and then.
func TestRandomJobsDoWhatALoopDoes(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, open)
			m.populate()
			for i := range 4 {
				m.compare(m.verb(), i%2*4)
			}
			m.compare(bulk.Erase, 6)
			m.compare(m.verb(), 0)
			m.contend(bulk.Set, 6)
			m.contend([]bulk.Verb{bulk.Resume, bulk.Fail, bulk.Cancel}[m.rng.IntN(3)], 6)
			if m.weather.rage(0) == 0 { // the last job makes more than enough of them
				t.Error("no call of the store has failed")
			}
		})
	}
}

// populate adds tasks of all states but processing. From then on, none of them runs.
func (m *model) populate() {
	m.t.Helper()
	m.set(func(t *task.Task) error {
		if t.Priority%2 == 0 {
			return nil
		}
		return task.Permanent(fmt.Errorf("the bank answered 50%d", t.Priority%3))
	})
	for _, round := range []string{"ended", "waiting", "ready"} {
		if round == "ready" {
			for _, typ := range []string{"pay", "mail"} {
				if err := m.Engine.Pause(m.t.Context(), typ); err != nil {
					m.t.Fatal(err)
				}
			}
		}
		reqs := make([]task.Request, modelTasks/3)
		for i := range reqs {
			reqs[i] = task.Request{
				Type: []string{"pay", "mail"}[m.rng.IntN(2)], Payload: fmt.Appendf(nil, `{"n":%d}`, m.rng.IntN(1000)), Priority: new(uint8(m.rng.IntN(10))),
				Headers: map[string]string{"tenant": fmt.Sprint("t", m.rng.IntN(3))},
			}
			if round == "waiting" {
				reqs[i].At = time.Now().Add(time.Duration(100+m.rng.IntN(1000)) * time.Hour)
			}
		}
		receipts, err := m.Submit(m.t.Context(), reqs...)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, r := range receipts {
			m.ids = append(m.ids, r.ID)
		}
		if round == "ended" {
			m.settled(m.ids...)
		}
	}
	for i, id := range m.ids[:modelTasks/3] { // some of them are done, and stay so
		action := engine.Failing("by hand")
		if i%8 == 0 {
			action = engine.Cancelling("by hand")
		}
		if _, err := m.Do(m.t.Context(), task.Ref{ID: id}, action); i%4 == 0 && err != nil && !errors.Is(err, engine.ErrNotAllowed) {
			m.t.Fatal(err)
		}
	}
}

// rows returns the tasks that exist, as soon as none of them waits to become ready.
func (m *model) rows() (rows map[task.ID]*task.Task) {
	m.t.Helper()
	m.await("all ready tasks", func() bool {
		all, err := m.GetAll(m.t.Context(), m.ids...)
		if err != nil {
			m.t.Fatal(err)
		}
		rows = make(map[task.ID]*task.Task)
		settled := true
		for i, t := range all {
			if t != nil {
				rows[m.ids[i]] = t
				settled = settled && !(t.State == task.Waiting && t.NextEventAt.Before(time.Now().Add(time.Hour)))
			}
		}
		return settled
	})
	return rows
}

// clause is a term of a filter, with its meaning.
type clause struct {
	text  string
	holds func(*task.Task) bool
}

// where returns the terms of a random filter, and whether one of them names states.
func (m *model) where() (all []clause, hasStates bool) {
	n, p, digit, tenant := m.rng.IntN(1000), uint8(m.rng.IntN(10)), fmt.Sprint("50", m.rng.IntN(3)), fmt.Sprint("t", m.rng.IntN(3))
	for _, c := range []clause{
		{"type=pay", func(t *task.Task) bool { return t.Type == "pay" }},
		{"error~" + digit, func(t *task.Task) bool { return strings.Contains(t.LastError, digit) }},
		{fmt.Sprint("priority<=", p), func(t *task.Task) bool { return t.Priority <= p }},
		{"header.tenant!=" + tenant, func(t *task.Task) bool { return t.Headers["tenant"] != tenant }},
		{fmt.Sprint("payload.n<", n), func(t *task.Task) bool {
			var got int
			_, err := fmt.Sscanf(string(t.Payload), `{"n":%d}`, &got)
			return err == nil && got < n
		}},
	} {
		if m.rng.IntN(5) == 0 {
			all = append(all, c)
		}
	}
	if m.rng.IntN(3) == 0 {
		a, b := task.State(m.rng.IntN(7)+1), task.State(m.rng.IntN(7)+1)
		return append(all, clause{fmt.Sprint("state=", a, ",", b), func(t *task.Task) bool { return t.State == a || t.State == b }}), true
	}
	return append(all, clause{"type=*", func(*task.Task) bool { return true }}), false
}

// rule has the states in which a verb can change a task, and its default for a filter without states.
type rule struct{ can, selects []task.State }

func rules() map[bulk.Verb]rule {
	open := []task.State{task.Waiting, task.Submitted, task.Error}
	gone := []task.State{task.Done, task.Failed, task.Cancelled}
	inError := []task.State{task.Error}
	return map[bulk.Verb]rule{
		bulk.Resume:     {[]task.State{task.Waiting, task.Error, task.Failed, task.Cancelled}, inError},
		bulk.Cancel:     {open, open},
		bulk.Fail:       {open, inError},
		bulk.Reschedule: {open, []task.State{task.Waiting, task.Error}},
		bulk.Set:        {open, open},
		bulk.Delete:     {gone, gone},
		bulk.Erase:      {append(gone, task.Error), append(gone, task.Error)},
	}
}

// verb returns a random verb.
func (m *model) verb() bulk.Verb { return slices.Sorted(maps.Keys(rules()))[m.rng.IntN(len(rules()))] }

// disturb gives a job a random order. It fails now and then.
func (m *model) disturb(name string) {
	m.t.Helper()
	ctx := m.t.Context()
	s, err := m.Jobs.Get(ctx, name)
	switch {
	case err != nil:
	case s.Phase == jobs.Paused:
		_, _ = m.Continue(ctx, name, "bert", "")
	case m.rng.IntN(2) == 0:
		_, _ = m.Jobs.Pause(ctx, name, "bert", "")
	default:
		_, _ = m.SetRate(ctx, name, float64(1e5+m.rng.IntN(1e5)), "bert")
	}
}

// compare runs a random job with a verb while one of so many calls of the store fails and people give it orders, and compares the tasks before and after it.
func (m *model) compare(verb bulk.Verb, oneIn int) {
	m.t.Helper()
	before := m.rows()
	clauses, hasStates := m.where()
	texts := make([]string, len(clauses))
	for i, c := range clauses {
		texts[i] = c.text
	}
	j := m.prepare(verb, strings.Join(texts, " "), func(j *bulk.Job) {
		switch verb {
		case bulk.Reschedule:
			j.At = task.Stamp(time.Now().Add(time.Duration(100+m.rng.IntN(1000)) * time.Hour))
		case bulk.Cancel, bulk.Fail:
			j.Reason = "bulk 500"
		case bulk.Set:
			j.Priority, j.Headers = new(uint8(m.rng.IntN(10))), map[string]*string{"job": new(j.Name)}
		}
	})
	if _, err := m.Start(m.t.Context(), j); err != nil {
		m.t.Fatal(err)
	}
	m.weather.rage(oneIn)
	var s *jobs.Status
	orders := m.rng.IntN(20)
	m.await("the end of a job", func() (ended bool) {
		if s, ended = m.ended(j.Name); !ended && (orders > 0 || s != nil && s.Phase == jobs.Paused) {
			m.disturb(j.Name)
			orders--
		}
		return ended
	})
	m.weather.rage(0)
	after := m.rows()
	var changed, refused int64
	for id, was := range before {
		selected := hasStates || slices.Contains(rules()[verb].selects, was.State)
		for _, c := range clauses {
			selected = selected && c.holds(was)
		}
		can, isErased := slices.Contains(rules()[verb].can, was.State), was.Erased() != nil
		selected, can = selected && !(isErased && verb == bulk.Erase), can && (!isErased || verb == bulk.Delete)
		switch {
		case selected && can:
			changed++
		case selected:
			refused++
		}
		if problem := wrong(&j, was, after[id], selected && can); problem != "" {
			m.t.Fatalf("%s %s: %s:\nbefore %+v\nafter  %+v", verb, j.Where, problem, was, after[id])
		}
	}
	if s.Phase != jobs.Done || s.State.Changed != changed || s.State.Refused != refused || s.State.Skipped+s.State.Unclear != 0 {
		m.t.Fatalf("%s %s: want %d changed, %d refused, got %s %+v", verb, j.Where, changed, refused, s.Phase, s.State)
	}
}

// contend runs a job with a verb while others set values of the tasks and one of so many calls of the store fails. The history of each task has the
// change of the job once.
func (m *model) contend(verb bulk.Verb, oneIn int) {
	m.t.Helper()
	before := m.rows()
	maps.DeleteFunc(before, func(_ task.ID, t *task.Task) bool {
		return !slices.Contains(rules()[verb].selects, t.State) || t.Erased() != nil
	})
	j := m.prepare(verb, "type=*", func(j *bulk.Job) {
		if j.By = "the job"; verb == bulk.Set {
			j.Headers = map[string]*string{"job": new(j.Name)}
		}
	})
	if _, err := m.Start(m.t.Context(), j); err != nil {
		m.t.Fatal(err)
	}
	m.weather.rage(oneIn)
	var s *jobs.Status
	others := slices.Collect(maps.Keys(before))
	m.await("the end of a job", func() (ended bool) {
		if len(others) > 0 {
			other, err := engine.Setting(engine.Values{Headers: map[string]*string{"other": new("yes")}, By: "another"})
			if err != nil {
				m.t.Fatal(err)
			}
			_, _ = m.Do(m.t.Context(), task.Ref{ID: others[0]}, other) // it fails now and then
			others = others[1:]
		}
		s, ended = m.ended(j.Name)
		return ended
	})
	m.weather.rage(0)
	if s.Phase != jobs.Done || s.State.Changed != int64(len(before)) || s.State.Done() != s.State.Changed {
		m.t.Fatalf("%s: want %d changed, got %s %+v", verb, len(before), s.Phase, s.State)
	}
	for id, t := range m.rows() {
		times := 0
		for _, a := range t.History {
			if a.By == "the job" && a.Job == j.Name {
				times++
			}
		}
		if want := before[id] != nil; (times == 1) != want || times > 1 {
			m.t.Fatalf("%s has changed it %d times: %+v", verb, times, t)
		}
	}
}

// ended returns a job if it has ended. It also reports false while the store fails.
func (m *model) ended(name string) (*jobs.Status, bool) {
	s, err := m.Jobs.Get(m.t.Context(), name)
	return s, err == nil && s.HasEnded()
}

// wronglyErased is wrong for a task that the job should have erased.
func wronglyErased(j *bulk.Job, was, is *task.Task) string {
	state := was.State
	if state == task.Error {
		state = task.Failed
	}
	r := is.Erased()
	switch {
	case is.Version != was.Version+1 || is.State != state || is.Type != was.Type || is.Priority != was.Priority:
		return "it was not changed once, or has another state, type or priority"
	case r == nil || r.Job != j.Name || r.By != j.By || !r.StartedAt.Equal(was.UpdatedAt) || !r.EndedAt.Equal(is.UpdatedAt):
		return "it has no receipt, or a wrong one"
	case len(is.Payload)+len(is.Result)+len(is.Headers)+len(is.LastError)+len(is.Key) > 0:
		return "it has some content"
	}
	return ""
}

// wrong names the difference between a task and the task that the job should have made of it; "" is none. A ready task that is set waits for a
// moment, and is ready again.
func wrong(j *bulk.Job, was, is *task.Task, isChanged bool) string {
	isMoved := j.Verb == bulk.Set && was.State == task.Submitted
	switch {
	case !isChanged && (is == nil || is.Version != was.Version):
		return "it should not have changed"
	case !isChanged:
		return ""
	case (is == nil) != (j.Verb == bulk.Delete):
		return "it is gone, or still there"
	case is == nil:
		return ""
	case j.Verb == bulk.Erase:
		return wronglyErased(j, was, is)
	case is.Version != was.Version+1 && (!isMoved || is.Version != was.Version+2):
		return "it was not changed once"
	case string(is.Payload) != string(was.Payload) || is.Type != was.Type || is.Headers["tenant"] != was.Headers["tenant"]:
		return "it has lost its payload, type or tenant"
	}
	state := map[bulk.Verb]task.State{bulk.Resume: task.Submitted, bulk.Cancel: task.Cancelled, bulk.Fail: task.Failed, bulk.Reschedule: task.Waiting, bulk.Set: was.State}[j.Verb]
	priority := was.Priority
	switch j.Verb {
	case bulk.Set:
		if priority = *j.Priority; is.Headers["job"] != j.Name {
			return "it lacks the header"
		}
	case bulk.Reschedule:
		if !is.NextEventAt.Equal(j.At) {
			return "it has another time"
		}
	case bulk.Cancel, bulk.Fail:
		if is.LastError != j.Reason {
			return "it lacks the reason"
		}
	}
	if is.State != state || is.Priority != priority {
		return "it has another state or priority"
	}
	return ""
}
