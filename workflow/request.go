package workflow

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/taskengine/taskengine/task"
)

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
