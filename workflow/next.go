package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// requests returns the tasks of a step.
func (r *run) requests(name string) ([]task.Request, error) {
	def, v := r.Steps[name], r.values[name]
	items := make([]any, max(1, def.Count))
	if len(def.ForEach) > 0 {
		each, err := resolve(v.each, r.find(name, nil, -1))
		if err != nil {
			return nil, fmt.Errorf("for_each: %w", err)
		}
		list, isList := each.([]any)
		switch {
		case !isList:
			return nil, errors.New("for_each: the value is not a list")
		case len(list) > MaxFanOut:
			return nil, fmt.Errorf("for_each: the list has %d values, of %d allowed", len(list), MaxFanOut)
		}
		items = list
	}
	all, size := make([]task.Request, len(items)), 0
	for i, item := range items {
		one, err := r.request(def.action(), v.task, r.find(name, item, i))
		if err != nil {
			return nil, err
		}
		if size += len(one.Payload); size > MaxAdded && i > 0 {
			return nil, fmt.Errorf("the payloads of its tasks have together more than %d bytes: refer to large values by $task", MaxAdded)
		}
		all[i] = one
	}
	return all, nil
}

// request returns the task of an action.
func (r *run) request(a *Action, values taskValues, find lookup) (task.Request, error) {
	one := task.Request{Type: a.Type, Headers: a.Headers, Priority: a.Priority}
	if len(a.OrderingKey) > 0 {
		v, err := resolve(values.key, find)
		if err == nil {
			one.OrderingKey, err = orderingKey(v)
		}
		if err != nil {
			return one, fmt.Errorf("ordering_key: %w", err)
		}
	}
	if len(a.Payload) == 0 {
		return one, nil
	}
	v, err := resolve(values.payload, find)
	if err != nil {
		return one, fmt.Errorf("payload: %w", err)
	}
	one.Payload, err = formatValue(v)
	return one, err
}

// find returns what finds the references of a task of a step, which is for an item.
func (r *run) find(step string, item any, index int) lookup {
	return func(kind, name string) (any, error) {
		switch kind {
		case refInput:
			return r.input, nil
		case refItem:
			return item, nil
		case refIndex:
			return index, nil
		case refWorkflow:
			return r.now.ID.String(), nil
		}
		s := r.state.Steps[name]
		switch kind {
		case refTask:
			ids := make([]any, s.Count)
			for i := range ids {
				ids[i] = r.now.Read.ID(Set(name), s.From+uint32(i)).String()
			}
			switch {
			case r.Steps[name].fansOut():
				return ids, nil
			case len(ids) == 0: // it was skipped, or has failed before it had a task
				return nil, nil
			}
			return ids[0], nil
		case refStep:
			return map[string]any{
				"state": string(s.Phase), "error": s.Error, "count": s.Count, "done": s.Done, "failed": s.Failed, "cancelled": s.Cancelled,
			}, nil
		}
		switch {
		case s.Phase == Skipped:
			return absent{}, nil
		case len(s.Result) == 0:
			return nil, nil
		}
		return parseValue(s.Result)
	}
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

// end ends a workflow with steps that all have ended.
func (r *run) end() error {
	o := Outcome{Retries: r.state.Retries, Steps: make(map[string]*StepState, len(r.order))}
	if len(r.Output) > 0 {
		v, err := resolve(r.output, r.find("", nil, -1))
		if err != nil {
			return task.Permanent(fmt.Errorf("output: %w", err))
		}
		if o.Output, err = formatValue(v); err != nil {
			return task.Permanent(fmt.Errorf("output: %w", err))
		}
	}
	for _, name := range r.order {
		s := *r.state.Steps[name]
		s.Result = nil
		o.Steps[name] = &s
	}
	result, err := formatValue(o)
	r.out = Decision{End: task.Done, Result: result}
	return err
}

// stop stops a workflow that has failed: it cancels what runs, waits for that, compensates what is done, and fails. before is the
// state as it is stored.
func (r *run) stop(before string) error {
	for _, name := range r.order {
		if set := r.now.Children.Set(Set(name)); set != nil && set.Ended() < set.Added {
			r.out.Stop = append(r.out.Stop, Stopped{Set(name), 0, set.Added})
			r.out.Waits = append(r.out.Waits, task.ChildrenWait{Name: Set(name)})
		}
	}
	if len(r.out.Waits) > 0 {
		return nil
	}
	if waits, err := r.undo(); waits || err != nil {
		return err
	}
	if string(r.state.Encode()) != before {
		return nil // once more, so that the state is stored that it fails with
	}
	r.out.End, r.out.Error = task.Failed, r.state.Failure.text(r)
	return nil
}

// undo goes on with the compensation, and reports whether the workflow waits for that.
func (r *run) undo() (waits bool, err error) {
	if !r.state.Failure.Undo {
		return false, nil
	}
	var all []string
	for _, name := range r.order {
		if s := r.state.Steps[name]; r.Steps[name].Compensate != nil && s.ended(r.now.Children.Set(Set(name))).Done > 0 {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return r.state.Steps[b].Order - r.state.Steps[a].Order })
	for _, name := range all {
		s := r.state.Steps[name]
		if s.Undo == nil {
			s.Undo = &StepState{Phase: Running, Began: r.now.At}
			requests, err := r.undoRequests(name)
			var unread *readError
			switch {
			case errors.As(err, &unread):
				return false, err
			case err != nil:
				s.Undo.Phase, s.Undo.Ended, s.Undo.Error = Failed, r.now.At, err.Error()
				continue
			}
			r.add(UndoSet(name), s.Undo, requests)
		}
		if s.Undo.Phase == Running {
			r.out.Waits = append(r.out.Waits, task.ChildrenWait{Name: UndoSet(name)})
			return true, nil
		}
	}
	return false, nil
}

// readError is the error of a child that cannot be read at present.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// undoRequests returns the tasks that undo the tasks of a step that are done. Unless all are, it looks at each.
func (r *run) undoRequests(name string) (all []task.Request, err error) {
	s, def := r.state.Steps[name], r.Steps[name]
	t := s.ended(r.now.Children.Set(Set(name)))
	for i := range t.Count {
		own := func() (any, error) {
			v, err := parseValue(s.Result)
			if err == nil && def.fansOut() {
				v, err = partOf(v, strconv.Itoa(int(i)))
			}
			return v, err
		}
		if t.Done < t.Count || s.Done < t.Done {
			child, err := r.now.Read.Child(Set(name), t.From+i)
			switch {
			case errors.Is(err, task.ErrNotFound):
				return nil, fmt.Errorf("task %d (%v): %w", i, r.now.Read.ID(Set(name), t.From+i), ErrGone)
			case err != nil:
				return nil, &readError{err}
			case child.State != task.Done:
				continue
			}
			own = func() (any, error) {
				v, err := valueOf(child.Result)
				if err != nil {
					return nil, err
				}
				return parseValue(v)
			}
		}
		item, err := r.item(name, int(i))
		if err != nil {
			return nil, err
		}
		find := r.find(name, item, int(i))
		one, err := r.request(def.Compensate, r.values[name].undo, func(kind, of string) (any, error) {
			switch {
			case of != name:
			case kind == refResult:
				return own()
			case kind == refTask:
				return r.now.Read.ID(Set(name), t.From+i).String(), nil
			}
			return find(kind, of)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// item returns the value that a task of a step is for.
func (r *run) item(name string, index int) (any, error) {
	if len(r.Steps[name].ForEach) == 0 {
		return nil, nil
	}
	each, err := resolve(r.values[name].each, r.find(name, nil, -1))
	if err != nil {
		return nil, err
	}
	return partOf(each, strconv.Itoa(index))
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
