package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Now is what a workflow decides by, besides its spec and its state.
type Now struct {
	ID       task.ID // of the workflow
	At       time.Time
	Children *task.Children // as its row has them; nil if it has none
	Wake     task.Wake      // what ended its newest wait
	Read     Children
}

// Decision is what a workflow does next. The state, and the children that are added, are stored in one change.
type Decision struct {
	State *State
	Add   []task.ChildRequests

	// What it waits for: one of them. Nothing at all is that it decides again at once.
	Waits   []task.ChildrenWait
	Signals []string
	Until   time.Time // zero is never

	// Stop has the children that are to be cancelled before the workflow waits. The state says so already.
	Stop []Stopped

	// End is how the workflow ends: task.Done with Result, task.Failed with Error; 0 if it goes on.
	End    task.State
	Result []byte
	Error  string
}

// Stopped are children that are to be cancelled.
type Stopped struct {
	Set      string
	From, To uint32 // the first, and the one after the last
}

// run is one decision.
type run struct {
	*graph
	now   Now
	state *State
	input any
	out   Decision
	bytes int
	full  bool // MaxAdded is exceeded: other steps begin with the next decision
	woken bool // the signal of now has ended a step
}

// Next decides what a workflow does next. The same arguments give the same decision. An error says that it cannot decide at present,
// or, if it wraps [ErrGone], that it cannot decide at all unless a person has it run a step again. state is not used afterwards.
func Next(spec *Spec, state *State, now Now) (*Decision, error) {
	r, err := newRun(spec, state, now)
	if err != nil {
		return nil, err
	}
	before := string(state.Encode())
	stopping := state.Failure != nil
	if err := r.collect(); err != nil {
		return nil, err
	}
	next := r.goOn
	if stopping {
		next = func() error { return r.stop(before) }
	}
	if err := next(); err != nil {
		return nil, err
	}
	r.out.State = r.state
	return &r.out, nil
}

func newRun(spec *Spec, state *State, now Now) (*run, error) {
	g, err := compile(spec.Definition)
	if err != nil {
		return nil, err
	}
	r := &run{graph: g, now: now, state: state}
	if len(spec.Input) > 0 {
		if r.input, err = parseValue(spec.Input); err != nil {
			return nil, fmt.Errorf("the input: %w", err)
		}
	}
	for _, name := range g.order {
		if state.Steps[name] == nil {
			state.Steps[name] = new(StepState)
		}
	}
	return r, nil
}

// goOn begins the steps that are ready, and decides what follows if one has failed.
func (r *run) goOn() error {
	if r.failed() { // nothing begins any more
		return nil
	}
	var began []string
	for _, name := range r.order {
		if r.state.Steps[name].Phase == Pending && r.isReady(name) && !r.full {
			if err := r.begin(name); err != nil {
				return err
			}
			began = append(began, name)
		}
	}
	if r.failed() {
		for _, name := range began {
			if r.state.Steps[name].Phase == Running {
				r.state.Steps[name] = new(StepState)
			}
		}
		r.out.Add = nil
		return nil
	}
	ended := 0
	for _, name := range r.order {
		switch s := r.state.Steps[name]; {
		case s.Phase == Running:
			r.await(name, s)
		case s.Phase != Pending:
			ended++
		}
	}
	if ended == len(r.order) {
		return r.end()
	}
	if r.full {
		r.out.Waits, r.out.Signals, r.out.Until = nil, nil, time.Time{}
	}
	return nil
}

// failed looks for a step that has failed, and notes it as the failure of the workflow.
func (r *run) failed() bool {
	first := ""
	for _, name := range r.order {
		s := r.state.Steps[name]
		if s.Phase == Failed && r.onFailure(name) != Continue && (first == "" || s.Order < r.state.Steps[first].Order) {
			first = name
		}
	}
	if first == "" {
		return false
	}
	r.state.Failure = &Failure{Step: first, Error: r.state.Steps[first].Error, At: r.now.At, Undo: r.onFailure(first) == Compensate}
	return true
}

func (r *run) isReady(name string) bool {
	return !slices.ContainsFunc(r.Steps[name].After, func(other string) bool {
		p := r.state.Steps[other].Phase
		return p != Done && p != Skipped && (p != Failed || r.onFailure(other) != Continue)
	})
}

// skips says why a step that is ready is skipped; "" if it is not.
func (r *run) skips(name string) (why string, err error) {
	def, skipped := r.Steps[name], ""
	count := 0
	for _, other := range def.After {
		if r.state.Steps[other].Phase == Skipped {
			skipped = other
			count++
		}
	}
	switch {
	case count == 0, def.SkipWith == SkipWithNone:
	case def.SkipWith != SkipWithAll:
		return fmt.Sprintf("step %s was skipped", skipped), nil
	case count == len(def.After):
		return "all steps before it were skipped", nil
	}
	when := r.values[name].when
	if when == nil {
		return "", nil
	}
	holds, err := when.holds(r.find(name, nil, -1))
	if err != nil {
		return "", fmt.Errorf("if: %w", err)
	}
	if !holds {
		return fmt.Sprintf("its condition does not hold: %.200s", def.If), nil
	}
	return "", nil
}

// begin adds the tasks of a step, or begins its wait, unless the step is skipped.
func (r *run) begin(name string) error {
	s, def := r.state.Steps[name], r.Steps[name]
	*s = StepState{Phase: Running, Began: r.now.At}
	why, err := r.skips(name)
	switch {
	case err != nil:
		s.Error = err.Error()
		r.finish(name, s, Failed)
		return nil
	case why != "":
		*s = StepState{Error: why}
		r.finish(name, s, Skipped)
		return nil
	}
	if w := def.Wait; w != nil {
		if d := max(w.Timeout, w.For); d > 0 {
			s.Until = r.now.At.Add(time.Duration(d))
		}
		return nil
	}
	requests, err := r.requests(name)
	if err != nil {
		s.Error = err.Error()
		r.finish(name, s, Failed)
		return nil
	}
	need := def.Need.of(len(requests))
	if len(requests) == 0 || need > len(requests) {
		if s.Error = fmt.Sprintf("%d tasks have to be done, and there are %d", need, len(requests)); need <= len(requests) {
			s.Error = ""
			if r.reads[name] {
				s.Result = json.RawMessage("[]")
			}
			r.finish(name, s, Done)
			return nil
		}
		r.finish(name, s, Failed)
		return nil
	}
	r.add(Set(name), s, requests)
	return nil
}

// add adds tasks as the children of a step or of its compensation.
func (r *run) add(set string, s *StepState, requests []task.Request) {
	if before := r.now.Children.Set(set); before != nil {
		s.Tasks = Tasks{From: before.Added, Before: &Ends{before.Done, before.Failed, before.Cancelled}}
	}
	s.Count = uint32(len(requests))
	for i := range requests {
		r.bytes += len(requests[i].Payload)
	}
	r.full = r.full || r.bytes > MaxAdded
	r.out.Add = append(r.out.Add, task.ChildRequests{Name: set, Requests: requests})
}

// finish ends a step.
func (r *run) finish(name string, s *StepState, p Phase) {
	r.state.Ends++
	s.Phase, s.Ended, s.Order, s.Until = p, r.now.At, r.state.Ends, time.Time{}
}

// await adds what a running step waits for.
func (r *run) await(name string, s *StepState) {
	def := r.Steps[name]
	if def.Wait == nil {
		r.out.Waits = append(r.out.Waits, r.waitFor(name, s))
		return
	}
	if sig := def.Wait.Signal; sig != "" && !slices.Contains(r.out.Signals, sig) {
		r.out.Signals = append(r.out.Signals, sig)
	}
	if !s.Until.IsZero() && (r.out.Until.IsZero() || s.Until.Before(r.out.Until)) {
		r.out.Until = s.Until
	}
}

// waitFor returns the wait for the earliest end of a task that can end a step.
func (r *run) waitFor(name string, s *StepState) task.ChildrenWait {
	set := r.now.Children.Set(Set(name))
	t := s.ended(set)
	need := uint32(r.Steps[name].Need.of(int(t.Count)))
	w := task.ChildrenWait{Name: Set(name)}
	isContinued := r.onFailure(name) == Continue
	if t.From == 0 && need == t.Count { // all of those that the set has
		w.Count, w.OrFailed = t.Count, !isContinued
		return w
	}
	more := min(need-min(need, t.Done), t.live())
	if !isContinued {
		more = min(more, t.Count-need+1-t.Failed-t.Cancelled)
	}
	if w.Count = max(1, more); set != nil {
		w.Count += set.Ended()
	}
	return w
}

// text is the error of a workflow that has failed.
func (f *Failure) text(r *run) string {
	texts := []string{fmt.Sprintf("step %s has failed: %s", f.Step, f.Error)}
	for _, name := range r.order {
		if u := r.state.Steps[name].Undo; u != nil && u.Phase == Failed {
			texts = append(texts, fmt.Sprintf("the compensation of step %s has failed: %s", name, u.Error))
		}
	}
	return strings.Join(texts, "; ")
}
