package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Bounds of one task of relayType. A single request may have more bytes.
const (
	leaveMost  = 1000
	leaveBytes = 1 << 20
)

// useRelays returns the store if the engine can deliver signals, and requests that leave one of several databases for another.
// Then the engine runs the tasks that carry them. Otherwise it returns nil, and they are refused.
func useRelays(c *Config) *relayStore {
	store, err := relayStoreOf(c.Store)
	if err != nil {
		return nil
	}
	c.Handlers[relayType] = task.HandlerFunc(carry)
	c.Policies.Types[relayType] = relayPolicy()
	return &store
}

// relayPolicy is the policy of relayType. Its Concurrency holds for each queue, and so for each database and type: the
// tasks of one that has no room, or does not answer, keep no others waiting.
func relayPolicy() policy.Type {
	p := policy.DefaultType()
	p.Slotless, p.Concurrency, p.MaxCrashes, p.MaxPayload = true, 16, 0, policy.LargestPayload
	p.Retry.Max, p.Retry.Backoff.Max = policy.Forever, policy.DefaultType().Retry.Backoff.Initial*60
	p.Retention.Done = 0
	return p
}

// leaving are requests of one call, some of which belong to other databases.
type leaving struct {
	reqs []Request    // the near ones, and then of the tasks that carry the others
	rows []*task.Task // of reqs
	far  []*task.Task // of the others, which are not inserted

	nearAt []int // by index into reqs, as far as they are near: the index into the requests of the call
	farAt  []int // by index into far, likewise
	by     []int // by index into far: the index into reqs of the task that carries it

	follows bool // the tasks are added with the end of an attempt, on no terms
	late    []refusedLate
	gone    map[int][]task.State // see farRequest.Gone
}

// refusedLate is a request that is late.
type refusedLate struct {
	row *task.Task
	at  int // the index into the requests of the call
}

// leave divides requests by whether the shards have their rows. The other requests leave by tasks of relayType in one of the
// shards: a task for all requests of one ordering key or key, because these must arrive in their order. Tasks for one ordering
// key or key run in the order in which a shard gets them. from is the task whose attempt adds them; zero if there is none. It
// returns nil if no request leaves. gone has the [farRequest.Gone] of requests, by their indexes.
func (e *Engine) leave(from task.ID, reqs []Request, rows []*task.Task, shards *task.Shards, follows bool, gone map[int][]task.State) (*leaving, error) {
	isNear := func(t *task.Task) bool { return shards.Has(t.ID.Shard()) }
	if e.abilities.relays == nil || shards == nil || !slices.ContainsFunc(rows, func(t *task.Task) bool { return !isNear(t) }) {
		return nil, nil
	}
	l, now := &leaving{follows: follows, gone: gone}, e.Now()
	var order []string // of the keys of groups
	groups := make(map[string][]int)
	for i, t := range rows {
		if isNear(t) {
			l.reqs, l.rows, l.nearAt = append(l.reqs, reqs[i]), append(l.rows, t), append(l.nearAt, i)
			continue
		}
		if !follows && !t.ReadyAt.IsZero() && e.catalog.infoOf(t.Type).rules.IsLate(now, t.ReadyAt) {
			l.late = append(l.late, refusedLate{t, i})
			continue
		}
		name := arrivalOf(t)
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], i)
	}
	for _, name := range order {
		if err := l.carry(e, name, groups[name], reqs, rows, homeOf(from, name, shards)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// homeOf returns the shard in which requests leave: that of their parent or, if there is none, one of the shards. It is the same
// for each call with a name until that shard is moved.
func homeOf(from task.ID, name string, shards *task.Shards) (home uint16) {
	if !from.IsZero() && shards.Has(from.Shard()) {
		return from.Shard()
	}
	var best [sha256.Size]byte
	for _, shard := range shards.List() {
		if sum := sha256.Sum256(fmt.Append(nil, shard, " ", name)); bytes.Compare(sum[:], best[:]) > 0 {
			home, best = shard, sum
		}
	}
	return home
}

// carry adds the tasks in the shard home that carry requests which must arrive in their order.
func (l *leaving) carry(e *Engine, name string, group []int, reqs []Request, rows []*task.Task, home uint16) error {
	for from := 0; from < len(group); {
		var some []farRequest
		size, to := 0, from
		for ; to < len(group) && len(some) < leaveMost; to++ {
			one := reqs[group[to]]
			isChosen := !one.ID.IsZero() // others may look for it, and so it is alone
			if size += len(one.Payload); to > from && (size > leaveBytes || isChosen || !reqs[group[from]].ID.IsZero()) {
				break
			}
			t := rows[group[to]]
			one.ID, one.Key = t.ID, t.Key
			some = append(some, farRequest{Request: one, Number: firstNumber + uint64(len(some)), Follows: l.follows, Parent: t.Parent, Gone: l.gone[group[to]]})
			l.far, l.farAt, l.by = append(l.far, t), append(l.farAt, group[to]), append(l.by, len(l.reqs))
		}
		req, row, err := e.relayTask(home, name, some)
		if err != nil {
			return err
		}
		l.reqs, l.rows, from = append(l.reqs, req), append(l.rows, row), to
	}
	return nil
}

// arrivalOf names the order in which the requests of t and others have to arrive: that of their ordering key, or of their key.
func arrivalOf(t *task.Task) string {
	switch {
	case t.OrderingKey != "":
		return "order\x00" + t.OrderingKey
	case t.Key != "":
		return "key\x00" + t.Type + "\x00" + t.Key
	}
	return "id\x00" + t.ID.String()
}

// relayTask returns the task in a shard that carries requests to another one.
func (e *Engine) relayTask(home uint16, name string, some []farRequest) (req Request, row *task.Task, err error) {
	data, err := json.Marshal(some)
	if err != nil {
		return req, nil, fmt.Errorf("encode requests: %w", err)
	}
	first := &some[0].Request
	req = Request{ID: leavesBy(home, first.ID), Type: relayType, OrderingKey: orderIn(home, name), Payload: data}
	rows, err := e.catalog.ownRows([]Request{req}, nil)
	if err != nil {
		return req, nil, fmt.Errorf("engine: %d tasks of type %s for another database: %w", len(some), first.Type, err)
	}
	rows[0].Group = task.GroupOf(strconv.Itoa(e.abilities.relays.databaseOf(first.ID.Shard())), first.Type)
	return req, rows[0], nil
}

// leavesBy returns the id of the task in a shard that carries the request of the task id, and perhaps others.
func leavesBy(home uint16, id task.ID) task.ID {
	return task.ReservedIDIn(home, relayType, "leaves", id.String())
}

// orderIn returns an ordering key for a name that has its tasks in a shard.
func orderIn(shard uint16, name string) string { return task.RelayKey(shard, name) }

// submitTx adds the near rows, and the tasks that carry the others, within a transaction. Of these the receipts say that
// they were created, although that is found out where they arrive.
func (l *leaving) submitTx(ctx context.Context, e *Engine, tx storage.Tx) ([]Receipt, error) {
	if full := e.roomInTx(tx, l.far); full != nil {
		return nil, e.refuse(full)
	}
	some, err := e.submitRowsTx(ctx, tx, l.reqs, l.rows, e.catalog.terms)
	if some == nil && err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(l.nearAt)+len(l.far)+len(l.late))
	for k, i := range l.nearAt {
		receipts[i] = some[k]
	}
	for k, i := range l.farAt {
		receipts[i] = some[l.by[k]]
		receipts[i].ID = l.far[k].ID
	}
	for _, one := range l.late {
		e.catalog.refuseLate(one.row, &receipts[one.at])
	}
	return receipts, e.catalog.refused(receipts)
}
