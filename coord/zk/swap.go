package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/cells"
)

// Swap implements [cells.Store].
func (s *store) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	outcomes, err := s.swap(ctx, c, nil, changes)
	if err != nil {
		return nil, s.noticed(c, fmt.Errorf("change %d nodes: %w", len(changes), err))
	}
	return outcomes, nil
}

// swap makes changes, after a check in the same transaction unless that is nil.
func (s *store) swap(ctx context.Context, c *conn, check *zk.CheckVersionRequest, changes []cells.Change) ([]cells.Outcome, error) {
	outcomes := make([]cells.Outcome, 0, len(changes))
	for len(outcomes) < len(changes) {
		for some := range cells.Parts(changes[len(outcomes):], maxChanges, s.partSize(), s.more()) {
			admitted, err := s.admit(ctx, some)
			if err != nil {
				return nil, err
			}
			if !admitted {
				break // smaller parts of the rest follow
			}
			made, err := do(ctx, func() ([]cells.Outcome, error) { return s.swapPart(c, check, some) })
			if isLost(err) && s.sizeOf(some) > smallRequest {
				s.sizes.reset() // this server may take less than the one that was asked
			}
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, made...)
		}
	}
	return outcomes, nil
}

// maxTransactions is how many transactions are tried for some changes. Nodes that change the same nodes of ZooKeeper all the
// time would otherwise keep each other from it until their time is over.
const maxTransactions = 2

// swapPart makes changes by one transaction: if a node has changed, it reads the nodes of which that is not certain, and tries
// again with the changes that can still be made. Changes that could not be made then are not made, though their nodes may not
// have changed.
func (s *store) swapPart(c *conn, check *zk.CheckVersionRequest, changes []cells.Change) ([]cells.Outcome, error) {
	outcomes := make([]cells.Outcome, len(changes))
	var left, stale []int // indexes of changes
	for i, change := range changes {
		outcomes[i].Now = change.Was
		left = append(left, i)
	}
	for tried := 0; len(left) > 0 && tried < maxTransactions; tried++ {
		refused, err := s.transact(c, check, changes, left, outcomes)
		if err != nil {
			return nil, err
		}
		if refused < 0 {
			break
		}
		stale = append(stale, left[refused])
		rest := left[refused+1:]
		left = slices.Clone(left[:refused])
		changed, err := each(rest, func(i int) (bool, error) { return s.hasChanged(c, changes[i].Was) })
		if err != nil {
			return nil, err
		}
		for j, i := range rest {
			if changed[j] {
				stale = append(stale, i)
			} else {
				left = append(left, i)
			}
		}
	}
	now, err := each(stale, func(i int) (cells.Cell, error) { return s.get(c, changes[i].Was.Key) })
	for j, i := range stale {
		outcomes[i] = cells.Outcome{Now: now[j]}
	}
	return outcomes, err
}

// hasChanged reports whether a node is not in the state of a cell any more.
func (s *store) hasChanged(c *conn, was cells.Cell) (bool, error) {
	data, stat, err := c.Get(s.path(was.Key))
	if errors.Is(err, zk.ErrNoNode) {
		return was.Exists(), nil
	}
	now, err := s.found(was.Key, data, stat, err)
	return !was.Exists() || now.Version != was.Version, err
}

// transact makes the changes with some indexes by one transaction, and notes their outcomes. It returns the index among the
// indexes of the change that cannot be made, because the node has changed; then it makes none. Otherwise it returns -1.
func (s *store) transact(c *conn, check *zk.CheckVersionRequest, changes []cells.Change, indexes []int, outcomes []cells.Outcome) (refused int, err error) {
	var ops []any
	var of []int // which of the indexes each operation is for
	if check != nil {
		ops, of = append(ops, check), append(of, -1)
	}
	for j, i := range indexes {
		for _, op := range s.ops(changes[i]) {
			ops, of = append(ops, op), append(of, j)
		}
	}
	answers, err := c.Multi(ops...)
	switch {
	case errors.Is(err, zk.ErrSessionExpired) && check != nil:
		return 0, cells.ErrOver
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return s.refusedOf(answers, of)
	case err != nil:
		return 0, err
	case len(answers) != len(ops):
		return 0, fmt.Errorf("%d answers to %d operations", len(answers), len(ops))
	}
	stats := make([]*zk.Stat, len(indexes))
	for k, a := range answers {
		if a.Stat != nil {
			stats[of[k]] = a.Stat
		}
	}
	for j, i := range indexes {
		outcomes[i] = s.outcome(changes[i], stats[j])
	}
	return -1, nil
}

// refusedOf returns which change the first operation is for that the servers have refused. The error is [cells.ErrOver] if that
// is the check of the session.
func (s *store) refusedOf(answers []zk.MultiResponse, of []int) (int, error) {
	for k, a := range answers {
		switch {
		case a.Error == nil:
		case of[k] < 0:
			return 0, cells.ErrOver
		default:
			return of[k], nil
		}
	}
	return 0, errors.New("a transaction was refused, and none of its operations")
}

// outcome returns that of a change that was made. The stat is that of the node after a change of its data.
func (s *store) outcome(change cells.Change, stat *zk.Stat) cells.Outcome {
	switch {
	case change.Value != nil:
		return cells.Outcome{Swapped: true, Now: s.see(change.Was.Key, change.Value, stat)}
	case change.Was.Exists(): // the answer to a removal has no number
		return cells.Outcome{Swapped: true, Now: cells.Cell{Key: change.Was.Key, Version: change.Was.Version + 1}}
	}
	return cells.Outcome{Swapped: true, Now: change.Was}
}

// ops returns the operations of a change.
func (s *store) ops(c cells.Change) []any {
	path := s.path(c.Was.Key)
	if !c.Was.Exists() {
		if c.Value == nil {
			return nil
		}
		flags := int32(0)
		if c.Ephemeral {
			flags = zk.FlagEphemeral
		}
		// Only the answer to a change of data has the number of the transaction.
		return []any{
			&zk.CreateRequest{Path: path, Acl: s.acl, Flags: flags},
			&zk.SetDataRequest{Path: path, Data: c.Value, Version: 0},
		}
	}
	if c.Value == nil {
		return []any{&zk.DeleteRequest{Path: path, Version: int32(c.Was.Mark)}}
	}
	return []any{&zk.SetDataRequest{Path: path, Data: c.Value, Version: int32(c.Was.Mark)}}
}
