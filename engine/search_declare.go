package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// searchSetting has, in the store, of which search attributes the rows have the values.
const searchSetting = "search"

// declared is the value of searchSetting. Its invariant: of a type and an attribute that are Complete, each row above Above has its values, or is
// Unread, and each node that may add rows gives them their values.
type declared struct {
	// Nodes has the attributes that nodes declare, by their incarnations.
	Nodes map[string]attributes `json:"nodes,omitempty"`
	// Types has the state of the index of each declared attribute, by type and attribute.
	Types map[string]map[string]indexed `json:"types,omitempty"`
}

// attributes are search attributes by their types.
type attributes map[string][]string

func (a attributes) has(typ, attribute string) bool { return slices.Contains(a[typ], attribute) }

// indexed says of which rows the values of an attribute are known.
type indexed struct {
	Mark     task.ID `json:"mark"`               // another one each time that it is declared after it was withdrawn
	Complete bool    `json:"complete,omitempty"` // of all rows above Above; else of none
	Above    task.ID `json:"above,omitzero"`
}

// attributesOf returns the search attributes of a type. The values of encrypted payloads would be readable in an index, so it refuses them.
func (c contents) attributesOf(typ string, places []string) (all []filter.Attribute, err error) {
	for _, place := range places {
		a, err := filter.ParseAttribute(place)
		if err != nil {
			return nil, fmt.Errorf("engine: search of type %s: %.80q %w", typ, place, err)
		}
		if a.InPayload() {
			sample := []byte(`{"customer":{"id":17}}`)
			stored, err := c.encode(typ, codec.Payload, bytes.Clone(sample))
			if err != nil {
				return nil, fmt.Errorf("engine: search of type %s: %w", typ, err)
			}
			if !c.isOpen(stored, sample) {
				return nil, fmt.Errorf("engine: search of type %s: payloads are encrypted, and the index would show values of %s; name headers only, or store payloads without encryption", typ, place)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// attributes returns the search attributes of all types.
func (c *catalog) attributes() attributes {
	all := make(attributes)
	for name, of := range c.search {
		for _, a := range of {
			all[name] = append(all[name], a.String())
		}
	}
	return all
}

// readDeclared returns the setting and its value.
func readDeclared(ctx context.Context, store storage.Settings) (d declared, value []byte, err error) {
	value, err = store.Setting(ctx, searchSetting)
	if err == nil && len(value) > 0 {
		err = json.Unmarshal(value, &d)
	}
	if err != nil {
		return declared{}, nil, fmt.Errorf("read the search attributes: %w", err)
	}
	return d, value, nil
}

// changeDeclared changes the setting by fn, which reports whether there is something to change. It may be called again.
func (e *Engine) changeDeclared(ctx context.Context, fn func(*declared) bool) error {
	store, ok := e.store.(storage.Settings)
	if !ok {
		return nil
	}
	for {
		d, old, err := readDeclared(ctx, store)
		if err != nil || !fn(&d) {
			return err
		}
		var value []byte
		if len(d.Nodes) > 0 || len(d.Types) > 0 {
			if value, err = json.Marshal(d); err != nil {
				return err
			}
		}
		swapped := true
		if shared, ok := e.store.(storage.Shared); ok {
			swapped, err = shared.SwapSetting(ctx, searchSetting, old, value)
		} else {
			err = store.SetSetting(ctx, searchSetting, value)
		}
		if err != nil {
			return fmt.Errorf("store the search attributes: %w", err)
		}
		if swapped {
			return nil
		}
	}
}

// withdrawOthers withdraws the attributes that this node does not declare, unless it has done so since it joined: rows without their values may follow.
// The node is a member, so that the others do not declare them complete again.
func (e *Engine) withdrawOthers(ctx context.Context, own attributes, d *declaring) error {
	now := e.cluster.Incarnation()
	if d.incarnation == now {
		return nil
	}
	err := e.changeDeclared(ctx, func(d *declared) (changed bool) {
		for typ, all := range d.Types {
			for attribute := range all {
				if !own.has(typ, attribute) {
					delete(all, attribute)
					changed = true
				}
			}
			if len(all) == 0 {
				delete(d.Types, typ)
			}
		}
		return changed
	})
	if err == nil {
		*d = declaring{incarnation: now}
		e.catalog.withdrawnBy.Store(&now)
	}
	return err
}

// declaring makes the attributes of this node complete. It belongs to one goroutine at a time.
type declaring struct {
	incarnation task.ID                             // that of this node when it withdrew the attributes that it does not declare
	nodes       []task.ID                           // as nodes returned them the last time
	marks       []task.ID                           // of the attributes of this node, likewise
	since       time.Time                           // since when these are the nodes and the marks
	agreed      func(context.Context) (bool, error) // reports whether the transactions have ended that were open when the nodes agreed; nil before
}

// searchLoop declares the search attributes of this node, and withdraws others when it joins again: while it was no member, others could not know of
// it.
func (e *Engine) searchLoop(ctx context.Context, d *declaring) {
	own := e.catalog.attributes()
	for wakeup.Sleep(ctx, e.cluster.Lease()/2) == nil {
		if e.cluster.IsShared() && !e.cluster.IsMember() {
			continue
		}
		if err := e.declare(ctx, own, d); err != nil && ctx.Err() == nil {
			e.unanswered(ctx, "search attributes", err)
		}
	}
}

// declare does the next step.
func (e *Engine) declare(ctx context.Context, own attributes, d *declaring) error {
	if err := e.withdrawOthers(ctx, own, d); err != nil {
		return err
	}
	store, ok := e.store.(storage.Settings)
	if !ok || len(own) == 0 {
		return nil
	}
	known, _, err := readDeclared(ctx, store)
	if err != nil {
		return err
	}
	if !own.areIn(&known) || !own.areOf(&known, d.incarnation) {
		if err := e.changeDeclared(ctx, func(to *declared) bool { return own.addTo(to, d.incarnation, e.nodes(), e.catalog.ids.Next(e.Now())) }); err != nil {
			return err
		}
		if known, _, err = readDeclared(ctx, store); err != nil {
			return err
		}
	}
	if nodes, marks := e.nodes(), own.marksIn(&known); !slices.Equal(nodes, d.nodes) || !slices.Equal(marks, d.marks) {
		d.nodes, d.marks, d.since, d.agreed = nodes, marks, time.Now(), nil
	}
	return e.complete(ctx, own, &known, d)
}

// areIn reports whether d has all of these attributes.
func (a attributes) areIn(d *declared) bool {
	for typ, all := range a {
		for _, attribute := range all {
			if _, ok := d.Types[typ][attribute]; !ok {
				return false
			}
		}
	}
	return true
}

// marksIn returns the marks of these attributes in d.
func (a attributes) marksIn(d *declared) (marks []task.ID) {
	for _, typ := range slices.Sorted(maps.Keys(a)) {
		for _, attribute := range a[typ] {
			marks = append(marks, d.Types[typ][attribute].Mark)
		}
	}
	return marks
}

// areOf reports whether d has these attributes as those of a node.
func (a attributes) areOf(d *declared, node task.ID) bool {
	return maps.EqualFunc(d.Nodes[node.String()], a, slices.Equal)
}

// addTo adds the attributes of a node to d, and removes the nodes that are not known any more. New ones get the mark. It reports whether it changed d.
func (a attributes) addTo(d *declared, node task.ID, known []task.ID, mark task.ID) bool {
	if a.areIn(d) && a.areOf(d, node) {
		return false
	}
	maps.DeleteFunc(d.Nodes, func(name string, _ attributes) bool {
		return !slices.ContainsFunc(known, func(id task.ID) bool { return id.String() == name })
	})
	if d.Nodes == nil {
		d.Nodes = make(map[string]attributes)
	}
	if d.Types == nil {
		d.Types = make(map[string]map[string]indexed)
	}
	d.Nodes[node.String()] = a
	for typ, all := range a {
		if d.Types[typ] == nil {
			d.Types[typ] = make(map[string]indexed)
		}
		for _, attribute := range all {
			if _, ok := d.Types[typ][attribute]; !ok {
				d.Types[typ][attribute] = indexed{Mark: mark}
			}
		}
	}
	return true
}

// complete makes those attributes complete that all nodes declare. A node that does not, and that this one cannot know of, joins after the setting
// has the attributes, and withdraws them.
func (e *Engine) complete(ctx context.Context, own attributes, known *declared, d *declaring) error {
	var ready [][2]string
	for typ, all := range own {
		for _, attribute := range all {
			if is, ok := known.Types[typ][attribute]; ok && !is.Complete && e.allDeclare(known, typ, attribute) {
				ready = append(ready, [2]string{typ, attribute})
			}
		}
	}
	if len(ready) == 0 {
		return nil
	}
	if e.cluster.IsShared() && (time.Since(d.since) < e.cluster.Lease()+time.Second || e.cluster.Alive() == nil) {
		return nil // it may not know of all members yet, or one that has left may have rows to add from before it learned that
	}
	if d.agreed == nil { // a node without these attributes may have replaced the rules, also after this one did
		if err := e.catalog.store(ctx, e.store); err != nil {
			return err
		}
	}
	if fenced, ok := e.store.(storage.Fenced); ok {
		if d.agreed == nil {
			var err error
			if d.agreed, err = fenced.Fence(ctx); err != nil {
				return err
			}
		}
		if passed, err := d.agreed(ctx); err != nil || !passed {
			return err
		}
	}
	top, err := e.newest(ctx)
	if err != nil {
		return err
	}
	d.agreed = nil
	return e.changeDeclared(ctx, func(to *declared) (changed bool) {
		for _, of := range ready {
			if is, ok := to.Types[of[0]][of[1]]; ok && is == known.Types[of[0]][of[1]] && e.allDeclare(to, of[0], of[1]) {
				is.Complete, is.Above, changed = true, top, true
				to.Types[of[0]][of[1]] = is
			}
		}
		return changed
	})
}

// nodes returns the incarnations of this node and of the others that are alive.
func (e *Engine) nodes() (ids []task.ID) {
	for _, m := range e.cluster.Members() {
		ids = append(ids, m.Incarnation)
	}
	if ids == nil {
		ids = append(ids, e.cluster.Incarnation())
	}
	return ids
}

// allDeclare reports whether all nodes that this one knows declare an attribute.
func (e *Engine) allDeclare(d *declared, typ, attribute string) bool {
	for _, id := range e.nodes() {
		if !d.Nodes[id.String()].has(typ, attribute) {
			return false
		}
	}
	return true
}

// newest returns the greatest id of a row, zero if there is none.
func (e *Engine) newest(ctx context.Context) (id task.ID, err error) {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return id, ErrUnsupported
	}
	page, err := s.List(ctx, storage.ListQuery{Limit: 1, Scan: 1})
	if err == nil && len(page.Tasks) > 0 {
		id = page.Tasks[0].ID
	}
	return id, err
}
