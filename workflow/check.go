package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/task"
)

// Check returns an error that describes a mistake in d and names its place; nil if there is none.
func (d *Definition) Check() error {
	_, err := compile(d)
	return err
}

// graph is a definition that was checked.
type graph struct {
	*Definition
	order  []string                   // of the steps: each comes after those before it, otherwise by name
	place  map[string]int             // in order
	before map[string]map[string]bool // all steps that end before a step begins
	values map[string]values
	output any
	reads  map[string]bool // steps with a result that something refers to
}

// values are the values of a step with their references.
type values struct {
	task, undo taskValues
	each       any
	when       *condition // nil if it has none
}

// taskValues are the values of a task with their references.
type taskValues struct {
	payload, key any
}

// compile checks d.
func compile(d *Definition) (*graph, error) {
	if d == nil {
		return nil, errors.New("there is no definition")
	}
	g := &graph{Definition: d, values: make(map[string]values), reads: make(map[string]bool)}
	switch {
	case len(d.Name) > MaxName || !printable(d.Name):
		return nil, fmt.Errorf("name is %.40q, and has at most %d bytes of printable UTF-8", d.Name, MaxName)
	case len(d.Steps) == 0:
		return nil, errors.New("steps are missing")
	case len(d.Steps) > MaxSteps:
		return nil, fmt.Errorf("there are %d steps, of %d allowed", len(d.Steps), MaxSteps)
	}
	if err := d.OnFailure.check(); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(d.Steps))
	signals := make(map[string]bool)
	for _, name := range names {
		if err := checkStepName(name); err != nil {
			return nil, err
		}
		s := d.Steps[name]
		if s == nil {
			return nil, fmt.Errorf("steps.%s: it is empty: a step has a type, or a wait", name)
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("steps.%s: %w", name, err)
		}
		for i, other := range s.After {
			switch {
			case other == name:
				return nil, fmt.Errorf("steps.%s.after: the step comes after itself", name)
			case d.Steps[other] == nil:
				return nil, fmt.Errorf("steps.%s.after: there is no step %.80q%s", name, other, nearest(other, names))
			case slices.Contains(s.After[:i], other):
				return nil, fmt.Errorf("steps.%s.after: %s is given twice", name, other)
			}
		}
		if s.Wait != nil && s.Wait.Signal != "" {
			signals[s.Wait.Signal] = true
		}
	}
	if len(signals) > MaxSignals {
		return nil, fmt.Errorf("the steps wait for %d different signals, of %d allowed", len(signals), MaxSignals)
	}
	if err := g.sort(names); err != nil {
		return nil, err
	}
	return g, g.readValues()
}

// sort fills order, place and before. It returns an error if steps come after each other in a cycle.
func (g *graph) sort(names []string) error {
	g.place, g.before = make(map[string]int, len(names)), make(map[string]map[string]bool, len(names))
	for len(g.order) < len(names) {
		had := len(g.order)
		for _, name := range names {
			if _, has := g.place[name]; has {
				continue
			}
			if slices.ContainsFunc(g.Steps[name].After, func(other string) bool { return g.before[other] == nil }) {
				continue
			}
			all := make(map[string]bool)
			for _, other := range g.Steps[name].After {
				maps.Copy(all, g.before[other])
				all[other] = true
			}
			g.place[name], g.before[name] = len(g.order), all
			g.order = append(g.order, name)
		}
		if len(g.order) == had {
			cycle := g.cycle(names)
			return fmt.Errorf("steps.%s.after: the steps come after each other in a cycle: %s", cycle[0], strings.Join(cycle, " after "))
		}
	}
	return nil
}

// cycle returns a cycle among the steps that have no place.
func (g *graph) cycle(names []string) (at []string) {
	next := func(name string) string {
		for _, other := range g.Steps[name].After {
			if g.before[other] == nil {
				return other
			}
		}
		return ""
	}
	one := names[slices.IndexFunc(names, func(name string) bool { return g.before[name] == nil })]
	for !slices.Contains(at, one) {
		at = append(at, one)
		one = next(one)
	}
	return append(at[slices.Index(at, one):], one)
}

// readValues reads the values with references, and checks these.
func (g *graph) readValues() (err error) {
	for _, name := range g.order {
		s := g.Steps[name]
		at := "steps." + name
		sees := scope{before: g.before[name], fans: s.fansOut(), all: g.Steps}
		var v values
		if s.If != "" {
			if v.when, err = parseCondition(s.If); err == nil {
				err = v.when.check(sees, g.reads)
			}
			if err != nil {
				return fmt.Errorf("%s.if: %w", at, err)
			}
		}
		if v.task, err = g.taskValues(s.action(), at, sees); err != nil {
			return err
		}
		sees.fans = false
		if v.each, err = g.value(s.ForEach, at+".for_each", sees); err != nil {
			return err
		}
		if s.Compensate != nil {
			own := maps.Clone(g.before[name])
			own[name] = true
			sees = scope{before: own, fans: s.fansOut(), all: g.Steps}
			if v.undo, err = g.taskValues(s.Compensate, at+".compensate", sees); err != nil {
				return err
			}
		}
		if list, isList := v.each.([]any); isList && len(list) > MaxFanOut {
			return fmt.Errorf("%s.for_each: it has %d values, of %d allowed", at, len(list), MaxFanOut)
		}
		g.values[name] = v
	}
	all := make(map[string]bool)
	for name := range g.Steps {
		all[name] = true
	}
	g.output, err = g.value(g.Output, "output", scope{before: all, all: g.Steps})
	return err
}

// taskValues reads the values of the task of an action.
func (g *graph) taskValues(a *Action, at string, sees scope) (v taskValues, err error) {
	if v.payload, err = g.value(a.Payload, at+".payload", sees); err != nil {
		return v, err
	}
	at += ".ordering_key"
	if v.key, err = g.value(a.OrderingKey, at, sees); err != nil || len(a.OrderingKey) == 0 {
		return v, err
	}
	if of, isObject := v.key.(map[string]any); isObject {
		if _, _, isReference := reference(of); isReference {
			return v, nil
		}
	}
	if _, err := orderingKey(v.key); err != nil {
		return v, fmt.Errorf("%s: %w", at, err)
	}
	return v, nil
}

// value reads a value and checks its references.
func (g *graph) value(data json.RawMessage, at string, sees scope) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := checkNames(data); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	v, err := parseValue(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return v, checkValue(v, at, sees, g.reads)
}

// onFailure returns what follows from the failure of a step.
func (g *graph) onFailure(name string) OnFailure {
	for _, f := range []OnFailure{g.Steps[name].OnFailure, g.OnFailure} {
		if f != "" {
			return f
		}
	}
	return Fail
}

// Types returns the types of the tasks that a workflow may add, each once.
func (d *Definition) Types() (all []string) {
	for _, s := range d.Steps {
		if s == nil {
			continue
		}
		if s.Type != "" {
			all = append(all, s.Type)
		}
		if s.Compensate != nil {
			all = append(all, s.Compensate.Type)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ReadTypes returns the types of tasks with results that the workflow reads, each once. d was checked.
func (d *Definition) ReadTypes() (all []string) {
	g, err := compile(d)
	if err != nil {
		return nil
	}
	for name := range g.reads {
		if typ := d.Steps[name].Type; typ != "" {
			all = append(all, typ)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func checkStepName(name string) error {
	ok := name != "" && len(name) <= MaxStep && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if !ok {
		return fmt.Errorf("steps: %.80q is not the name of a step, which has 1 to %d letters, digits, _ or -", name, MaxStep)
	}
	return nil
}

func (f OnFailure) check() error {
	switch f {
	case "", Fail, Continue, Compensate:
		return nil
	}
	return fmt.Errorf("on_failure is %.40q, and fail, continue or compensate", string(f))
}

func (s SkipWith) check() error {
	switch s {
	case "", SkipWithAny, SkipWithAll, SkipWithNone:
		return nil
	}
	return fmt.Errorf("skip_with is %.40q, and any, all or none", string(s))
}

func (s *Step) fansOut() bool { return s.Count > 0 || len(s.ForEach) > 0 }

// check returns an error if s is wrong, but for its place in the graph and its references.
func (s *Step) check() error {
	if err := s.OnFailure.check(); err != nil {
		return err
	}
	if err := s.SkipWith.check(); err != nil {
		return err
	}
	if s.SkipWith != "" && len(s.After) == 0 {
		return errors.New("skip_with is for a step with after")
	}
	if s.Wait != nil {
		return s.checkWait()
	}
	switch {
	case s.Type == "":
		return errors.New("a step has a type, or a wait")
	case s.Count < 0 || s.Count > MaxFanOut:
		return fmt.Errorf("count is %d, of 1 to %d", s.Count, MaxFanOut)
	case s.Count > 0 && len(s.ForEach) > 0:
		return errors.New("count and for_each exclude each other")
	case s.Need < 0 || s.Need > MaxFanOut || s.Count > 0 && int(s.Need) > s.Count:
		return fmt.Errorf("need is %d, and there are not so many tasks", s.Need)
	case s.Need > 0 && !s.fansOut():
		return errors.New("need is for the tasks of count or for_each")
	}
	if err := s.action().check(); err != nil {
		return err
	}
	if s.Compensate != nil {
		if err := s.Compensate.check(); err != nil {
			return fmt.Errorf("compensate: %w", err)
		}
	}
	return nil
}

func (s *Step) checkWait() error {
	w := s.Wait
	switch {
	case s.Type != "" || len(s.Payload) > 0 || s.Headers != nil || s.Priority != nil || len(s.OrderingKey) > 0 || s.fansOut() || s.Need > 0 || s.Compensate != nil:
		return errors.New("a step with a wait has no task: it has after, if, skip_with, on_failure and the wait only")
	case (w.Signal == "") == (w.For == 0):
		return errors.New("wait: it has a signal, or a time as for")
	case w.For != 0 && w.Timeout != 0:
		return errors.New("wait: timeout is for a signal")
	case len(w.Signal) > task.MaxSignalName || !printable(w.Signal) || task.IsReservedType(w.Signal) || w.Signal == task.AwaitsChildren:
		return fmt.Errorf("wait: %.40q is not the name of a signal, which has up to %d bytes of printable UTF-8", w.Signal, task.MaxSignalName)
	}
	return nil
}

const (
	maxType    = 200 // as of package engine, likewise below
	maxHeaders = 16 << 10
	maxKey     = 500
)

func (a *Action) check() error {
	headers := 0
	for k, v := range a.Headers {
		headers += len(k) + len(v)
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return errors.New("headers must be UTF-8 text")
		}
	}
	switch {
	case a.Type == "":
		return errors.New("type is missing")
	case task.IsReservedType(a.Type):
		return fmt.Errorf("type %.80q is reserved: types that begin with %s belong to the engine", a.Type, task.ReservedTypes)
	case len(a.Type) > maxType || !printable(a.Type):
		return fmt.Errorf("type is %.40q, and has at most %d bytes of printable UTF-8", a.Type, maxType)
	case a.Priority != nil && *a.Priority > task.LowestPriority:
		return fmt.Errorf("priority is %d, of 0 (sooner) to %d (later)", *a.Priority, task.LowestPriority)
	case headers > maxHeaders:
		return fmt.Errorf("headers have %d bytes, of %d allowed", headers, maxHeaders)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// nearest advises a name that may be meant.
func nearest(word string, names []string) string {
	if near := suggest.Nearest(word, names); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}
