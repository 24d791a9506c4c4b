package cells

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

var _ coord.Keeper = (*Node)(nil)

// Contents implements [coord.Keeper].
func (n *Node) Contents(ctx context.Context) (coord.Contents, error) {
	cells, err := n.readAll(ctx)
	if err != nil {
		return coord.Contents{}, fmt.Errorf("read the cells: %w", err)
	}
	return contentsOf(cells, n.options.Now()), nil
}

// joinWithin is longer than the rest of a node that has lost its lease, before it joins again.
const joinWithin = 3 * time.Second

// Clean implements [coord.Keeper]. It takes a few seconds, so that a node that has lost its lease can join again.
func (n *Node) Clean(ctx context.Context) (coord.Contents, error) {
	_, all, err := n.readUnused(ctx)
	if err != nil {
		return all, err
	}
	if err := wakeup.Sleep(ctx, joinWithin); err != nil {
		return all, err
	}
	cells, all, err := n.readUnused(ctx)
	if err != nil {
		return all, err
	}
	// The id is removed last: while it is there, nodes of stores that have recorded it can start.
	isID := func(c Cell) bool { return c.Key == identity }
	for _, some := range [][]Cell{slices.DeleteFunc(slices.Clone(cells), isID), slices.DeleteFunc(cells, func(c Cell) bool { return !isID(c) })} {
		if err := n.remove(ctx, some); err != nil {
			return all, err
		}
	}
	return all, nil
}

// readUnused returns all cells. The error wraps [coord.ErrInUse] if a node is alive.
func (n *Node) readUnused(ctx context.Context) ([]Cell, coord.Contents, error) {
	cells, err := n.readAll(ctx)
	if err != nil {
		return nil, coord.Contents{}, fmt.Errorf("read the cells: %w", err)
	}
	all := contentsOf(cells, n.options.Now())
	if len(all.Members) > 0 {
		return nil, all, fmt.Errorf("%w, such as %q", coord.ErrInUse, all.Members[0].Name)
	}
	for _, c := range cells {
		if isOf(c, memberKey) || isOf(c, roleKey) || isOf(c, holderKey) {
			return nil, all, fmt.Errorf("%w: %s", coord.ErrInUse, c.Key)
		}
	}
	return cells, all, nil
}

// remove removes cells that have not changed.
func (n *Node) remove(ctx context.Context, cells []Cell) error {
	changes := make([]Change, 0, len(cells))
	for _, c := range cells {
		changes = append(changes, Change{Was: c})
	}
	if len(changes) == 0 {
		return nil
	}
	outcomes, err := n.store.Swap(ctx, changes...)
	if err != nil {
		return fmt.Errorf("remove the cells: %w", err)
	}
	if slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.Swapped }) {
		return fmt.Errorf("%w: they have changed cells during the removal, and a part is removed", coord.ErrInUse)
	}
	return nil
}

// readAll returns all cells that are there.
func (n *Node) readAll(ctx context.Context) ([]Cell, error) {
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	keys := []string{identity}
	for i := range rateCells {
		keys = append(keys, fmt.Sprintf("%s%03x", rateKey, i))
	}
	cells, err := n.store.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return !c.Exists() })
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen := false
	err = n.store.Watch(watching, live, func(u Update) {
		if !seen {
			seen, cells = true, append(cells, u.Cells...)
		}
		stop()
	})
	if !seen {
		return nil, cmp.Or(err, context.Cause(ctx), errors.New("there was no answer"))
	}
	return cells, nil
}

func isOf(c Cell, kind string) bool { return strings.HasPrefix(c.Key, kind) }

// contentsOf decodes cells. It ignores cells that it cannot decode.
func contentsOf(cells []Cell, now time.Time) coord.Contents {
	all := coord.Contents{Settings: map[string][]coord.Setting{}}
	nodes := map[string]string{} // names, by session
	for _, c := range cells {
		var v memberValue
		id, err := task.ParseID(strings.TrimPrefix(c.Key, memberKey))
		if !isOf(c, memberKey) || err != nil || json.Unmarshal(c.Value, &v) != nil {
			continue
		}
		nodes[v.Session.String()] = v.Name
		all.Members = append(all.Members, coord.StoreMember{Store: v.Store, Member: v.member(id)})
	}
	for _, c := range cells {
		switch {
		case c.Key == identity:
			all.Cluster = string(c.Value)
		case isOf(c, roleKey):
			l := coord.Leader{Role: unescape(strings.TrimPrefix(c.Key, roleKey)), Node: nodes[string(c.Value)]}
			if store, role, ok := strings.Cut(l.Role, "/"); ok {
				l.Store, l.Role = store, role
			}
			all.Leaders = append(all.Leaders, l)
		case isOf(c, settingKey):
			name, hasSettings := settingName(c.Key)
			if s, err := parseSettings(c); hasSettings && err == nil && len(s.Scopes) > 0 {
				all.Settings[name] = append(all.Settings[name], s.list()...)
			}
		case isOf(c, permitKey):
			all.Limits = append(all.Limits, limitsOf(c)...)
		case isOf(c, rateKey):
			all.Rates = append(all.Rates, ratesOf(c, now)...)
		}
	}
	slices.SortFunc(all.Members, func(a, b coord.StoreMember) int { return a.Incarnation.Compare(b.Incarnation) })
	slices.SortFunc(all.Leaders, func(a, b coord.Leader) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Store, b.Store))
	})
	for _, settings := range all.Settings {
		slices.SortFunc(settings, func(a, b coord.Setting) int { return cmp.Compare(a.Scope, b.Scope) })
	}
	slices.SortFunc(all.Limits, func(a, b coord.LimitContents) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(all.Rates, func(a, b coord.RateContents) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// limitsOf returns the limits of a cell with permits that are held or wanted.
func limitsOf(c Cell) (all []coord.LimitContents) {
	p, err := parsePermits(c)
	if err != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Limits)) {
		if s := p.Limits[name]; s != nil && len(s.Standings) > 0 {
			all = append(all, coord.LimitContents{Name: name, Max: s.Max, Holders: s.Holders()})
		}
	}
	return all
}

// ratesOf returns the rates of a cell that are not full.
func ratesOf(c Cell, now time.Time) (all []coord.RateContents) {
	b, err := parseBuckets(c)
	if err != nil {
		return nil
	}
	for name, r := range b.Rates {
		if left := time.Duration(r[0] - max(b.Time, now.UnixNano())); left > 0 {
			all = append(all, coord.RateContents{Name: name, Full: now.Add(left).Round(0)})
		}
	}
	return all
}
