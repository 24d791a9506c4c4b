package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/task"
)

// childGroup is in the group of tasks that report ends of children, as the functions of PostgreSQL write it.
const childGroup = "child"

// childEnd is the end of one child, as a task of relayType carries it to the parent.
type childEnd struct {
	To    task.ID    `json:"to"`
	Name  string     `json:"name,omitempty"`
	Index uint32     `json:"index"`
	State task.State `json:"state"`
}

// reportOf returns the row of a task of relayType that reports to its parent how a child has ended. It is in the shard of the
// child. Those for one parent have one ordering key, so that one of them delivers what many carry.
func (e *Engine) reportOf(now time.Time, p *task.Parent, child task.ID, to task.State) *task.Task {
	data, err := json.Marshal(childEnd{To: p.ID, Name: p.Name, Index: p.Index, State: to})
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	home, key := e.signalHome(child, "child\x00"+p.ID.String(), e.shardsAround(child))
	return &task.Task{
		ID: e.catalog.ids.NextIn(now, home), Type: relayType, Shard: home, Priority: e.catalog.infoOf(relayType).priority,
		OrderingKey: key, Group: task.GroupOf(strconv.Itoa(e.databaseOf(p.ID)), childGroup), Headers: map[string]string{endHeader: string(data)}, ReadyAt: now,
	}
}

// databaseOf returns the number of the database that has a task; 0 if the store is one.
func (e *Engine) databaseOf(id task.ID) int {
	if e.abilities.relays == nil {
		return 0
	}
	return e.abilities.relays.databaseOf(id.Shard())
}

// childrenOf returns the rows of children that the attempt of t adds, their requests, and what t gets of them.
func (e *Engine) childrenOf(t *task.Task, sets []task.ChildRequests) (reqs []Request, parents []*task.Parent, adds []task.AddedChildren, err error) {
	if e.abilities.relays == nil {
		return nil, nil, nil, errRelayStore
	}
	count := make(map[string]uint32)
	for _, set := range sets {
		if err := checkChildName(set.Name); err != nil {
			return nil, nil, nil, err
		}
		if len(set.Requests) == 0 {
			continue
		}
		has, shards := count[set.Name], []byte(nil)
		if s := t.Children.Set(set.Name); s != nil {
			has, shards = has+s.Added, s.Shards
		}
		if uint64(has)+uint64(len(set.Requests)) > task.MaxChildren {
			return nil, nil, nil, fmt.Errorf("there would be %d children %q, of %d allowed", uint64(has)+uint64(len(set.Requests)), set.Name, task.MaxChildren)
		}
		bound := set.Requests[0].OrderingKey != ""
		if has > 0 && count[set.Name] == 0 && bound != (shards != nil) {
			return nil, nil, nil, errMixedChildren(set.Name)
		}
		add := task.AddedChildren{Name: set.Name, From: has, Count: uint32(len(set.Requests))}
		for i, r := range set.Requests {
			if !r.ID.IsZero() || r.Key != "" {
				return nil, nil, nil, fmt.Errorf("child %d of %q has an id or a key of its own: its parent, the name and its number make the id", i, set.Name)
			}
			if bound != (r.OrderingKey != "") {
				return nil, nil, nil, errMixedChildren(set.Name)
			}
			p := &task.Parent{ID: t.ID, Name: set.Name, Index: has + uint32(i)}
			switch r.ID = p.Child(); {
			case bound:
				shard := task.ShardOf(r.OrderingKey)
				r.ID, add.Shards = r.ID.In(shard), append(add.Shards, byte(shard))
			case e.catalog.isDivided:
				r.ID = r.ID.In(t.ID.Shard())
			}
			reqs, parents = append(reqs, r), append(parents, p)
		}
		count[set.Name] += add.Count
		adds = append(adds, add)
	}
	names := 0
	if t.Children != nil {
		names = len(t.Children.Sets)
	}
	for name := range count {
		if t.Children.Set(name) == nil {
			names++
		}
	}
	if names > task.MaxChildSets {
		return nil, nil, nil, fmt.Errorf("the children would have %d names, of %d allowed", names, task.MaxChildSets)
	}
	return reqs, parents, adds, nil
}

func errMixedChildren(name string) error {
	return fmt.Errorf("some of the children %q have an ordering key, and others have none: give those another name", name)
}

var errKeyOfChild = errors.New("unique.by of its type gives a child a key, so it might not be added: a child has no key")

// checkChildName returns an error if children cannot have a name.
func checkChildName(name string) error {
	if name == "" || len(name) > task.MaxSignalName || !printable(name) {
		return fmt.Errorf("%.40q is not a name of children, which is 1 to %d bytes of printable UTF-8", name, task.MaxSignalName)
	}
	return nil
}

// checkWaits returns an error if a task cannot wait so.
func checkWaits(names []string, waits []task.ChildrenWait) error {
	if len(names) != 1 || names[0] != task.AwaitsChildren {
		if len(waits) > 0 {
			return errors.New("a wait for children has other names")
		}
		return checkNames(names)
	}
	switch {
	case len(waits) == 0:
		return errors.New("no name of children is given")
	case len(waits) > task.MaxChildSets:
		return fmt.Errorf("%d names of children are given, of %d allowed", len(waits), task.MaxChildSets)
	}
	seen := make(map[string]bool, len(waits))
	for _, w := range waits {
		if err := checkChildName(w.Name); err != nil {
			return err
		}
		if seen[w.Name] {
			return fmt.Errorf("the children %q are given twice", w.Name)
		}
		seen[w.Name] = true
	}
	return nil
}
