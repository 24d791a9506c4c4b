package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// signalGroup is in the group of tasks that carry signals, as the function signal of PostgreSQL writes it.
const signalGroup = "signal"

// errAddressee says that the task that a signal is for was found by its key, and has it no more.
var errAddressee = errors.New("the key belongs to another task meanwhile")

// SignalTx sends signals within a transaction of the engine's store: each is delivered soon after the commit, if and only if the
// transaction commits, and is taken at most once. [task.WithSignals] describes the fate of signals that cannot be delivered. A
// handler that ends its attempt by [FinishTx] or [AgainTx] sends signals so in the same transaction. Signals that are sent by
// one task, or by transactions without one in one database, arrive at a task in their order.
func (e *Engine) SignalTx(ctx context.Context, tx storage.Tx, signals ...Signal) error {
	var shards *task.Shards
	if placed, ok := tx.(storage.ShardBound); ok {
		shards = placed.Shards()
	}
	reqs, rows, err := e.carriersOf(e.taskOf(ctx), signals, shards)
	if err != nil || len(rows) == 0 {
		return err
	}
	_, err = e.submitRowsTx(ctx, tx, reqs, rows, noTerms)
	return err
}

// carriersOf returns the rows of tasks of relayType that carry signals, and their requests: one for those to each task. They are
// in the shard of the task from or, if it is zero, in one of the shards; nil stands for all shards. Signals to one task arrive in
// their order, because their carriers have one ordering key.
func (e *Engine) carriersOf(from task.ID, signals []Signal, shards *task.Shards) (reqs []Request, rows []*task.Task, err error) {
	if len(signals) > 0 && e.abilities.relays == nil {
		return nil, nil, errRelayStore
	}
	var order []string
	groups := make(map[string][]farRequest)
	for i := range signals {
		s := signals[i] // the caller may send it again
		if err := e.checkSignal(&s); err != nil {
			return nil, nil, fmt.Errorf("%w: signal %d of %d: %w", ErrInvalid, i+1, len(signals), err)
		}
		if s.ID.IsZero() {
			s.ID = e.catalog.ids.Next(e.Now())
		}
		name := addressOf(&s)
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], farRequest{Signal: &s, Number: firstNumber + uint64(len(groups[name]))})
	}
	if len(order) > 0 && shards.IsEmpty() {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, errNoShards)
	}
	for _, name := range order {
		home, key := e.signalHome(from, name, shards)
		req, row, err := e.signalCarrier(home, key, groups[name])
		if err != nil {
			return nil, nil, err
		}
		reqs, rows = append(reqs, req), append(rows, row)
	}
	return reqs, rows, nil
}

// checkSignal returns an error if a signal cannot be sent.
func (e *Engine) checkSignal(s *Signal) error {
	if err := checkNames([]string{s.Name}); err != nil {
		return err
	}
	switch {
	case task.IsReservedType(s.Type):
		return fmt.Errorf("tasks of type %s belong to the engine and take no signals", s.Type)
	case !s.To.IsZero():
		return nil
	case s.Type == "" || s.Key == "":
		return errNoAddressee
	case len(s.Data) > e.catalog.infoOf(s.Type).maxPayload:
		return fmt.Errorf("the data has %d bytes, of %d allowed by max_payload of type %s", len(s.Data), e.catalog.infoOf(s.Type).maxPayload, s.Type)
	}
	if _, ok := e.store.(storage.KeyFinder); !ok && e.abilities.divided != nil {
		return ErrUnsupported
	}
	return nil
}

// addressOf names the task that a signal is for.
func addressOf(s *Signal) string {
	if !s.To.IsZero() {
		return "signal\x00" + s.To.String()
	}
	return "signal\x00" + s.Type + "\x00" + s.OrderingKey + "\x00" + s.Key
}

// signalHome returns the shard and the ordering key of tasks that carry signals to one task.
func (e *Engine) signalHome(from task.ID, name string, shards *task.Shards) (home uint16, key string) {
	if e.abilities.divided != nil {
		home = homeOf(from, name, shards)
		return home, orderIn(home, name)
	}
	sum := sha256.Sum256([]byte(name)) // as the function carrier_key of PostgreSQL
	key = fmt.Sprintf("%s/%x/0", relayType, sum[:16])
	return task.ShardOf(key), key
}

// signalCarrier returns the task in a shard that carries signals to one task.
func (e *Engine) signalCarrier(home uint16, key string, some []farRequest) (req Request, row *task.Task, err error) {
	data, err := json.Marshal(some)
	if err != nil {
		return req, nil, fmt.Errorf("encode signals: %w", err)
	}
	req = Request{ID: leavesBy(home, e.catalog.ids.Next(e.Now())), Type: relayType, OrderingKey: key, Payload: data}
	rows, err := e.catalog.ownRows([]Request{req}, nil)
	if err != nil {
		return req, nil, fmt.Errorf("engine: %d signals: %w", len(some), err)
	}
	rows[0].Group = task.GroupOf(strconv.Itoa(e.likelyDatabase(some[0].Signal)), signalGroup)
	return req, rows[0], nil
}

// likelyDatabase returns the database that probably has the task that a signal is for. So carriers that wait for one hold up
// no others.
func (e *Engine) likelyDatabase(s *Signal) int {
	shard := s.To.Shard()
	if s.To.IsZero() {
		shard, _ = task.BoundShard(s.Type, s.Key, s.OrderingKey)
	}
	return e.abilities.relays.databaseOf(shard)
}

// deliverNear finds the task that the signals of c are for, and delivers them, in the transaction that ends the attempt, if that
// task is in the database of c. It reports whether it has done so. If not, c is to deliver them to the task c.to.
func (c *carrier) deliverNear(ctx context.Context) (done bool, err error) {
	r := c.relay
	if r.cursor != "" { // it may have delivered some: the cursor says which
		return false, nil
	}
	signals := r.row.requests
	first := signals[0].Signal
	to := first.To
	if to.IsZero() && r.store.divided != nil { // each of the databases may have it
		t, err := r.engine.addressee(ctx, first)
		if errors.Is(err, task.ErrNotFound) {
			return true, r.home(ctx, func(tx storage.Tx) error { return FinishTx(ctx, tx, nil) })
		}
		if err != nil {
			return false, err
		}
		to = t.ID
	}
	if c.address(to); r.store.divided != nil && r.store.databaseOf(c.shard) != r.store.databaseOf(r.attempt.ref.ID.Shard()) {
		return false, nil
	}
	return true, r.home(ctx, func(tx storage.Tx) error {
		to, err := r.engine.holderIn(ctx, tx, first, to)
		if err != nil {
			return err
		}
		for i := range signals {
			found, err := r.engine.deliverTx(ctx, tx, signals[i].Signal, to)
			if err != nil {
				return err
			}
			if !found {
				return errAddressee
			}
		}
		return FinishTx(ctx, tx, nil)
	})
}

// holderIn returns the task to or, if it is zero, the one that has the key that a signal is for, as a transaction sees it: zero for
// none.
func (e *Engine) holderIn(ctx context.Context, tx storage.Tx, s *Signal, to task.ID) (task.ID, error) {
	if !to.IsZero() {
		return to, nil
	}
	found, err := tx.Existing(ctx, &task.Task{ID: e.catalog.ids.Next(e.Now()), Type: s.Type, Key: s.Key, OrderingKey: s.OrderingKey})
	if err != nil {
		return to, err
	}
	return found[0], nil
}

// deliverTx delivers a signal to a task within a transaction, unless the task does not take it, or is zero. found is false if the task is
// not the one of the key any more that the signal is for.
func (e *Engine) deliverTx(ctx context.Context, tx storage.Tx, s *Signal, to task.ID) (found bool, err error) {
	if to.IsZero() {
		return true, nil
	}
	t, err := tx.Get(ctx, to)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return !s.To.IsZero(), nil
	case err != nil:
		return false, err
	case !s.To.IsZero() && isOtherType(s, t):
		return true, nil
	case s.To.IsZero() && (t.Type != s.Type || t.Key != s.Key || t.OrderingKey != s.OrderingKey):
		return false, nil
	}
	most := e.catalog.infoOf(t.Type).maxPayload
	if task.IsReservedType(t.Type) || len(s.Data) > most {
		e.log.Warn("a signal is dropped: its data is longer than max_payload of the type of the task allows, or the task belongs to the engine",
			"task_id", t.ID, "type", t.Type, "signal", s.Name, "bytes", len(s.Data), "max_payload", most)
		return true, nil
	}
	data := s.Data
	if len(data) > 0 {
		if data, err = e.contents.encode(t.Type, codec.Signal, slices.Clone(data)); err != nil {
			return false, err
		}
	}
	rows, err := tx.Swap(ctx, task.Change{
		Ref: task.Ref{ID: t.ID}, At: e.Now(), OrderingKey: t.OrderingKey,
		Signal: &task.Delivery{Signal: task.Signal{ID: s.ID, Name: s.Name, Data: data}, Keep: s.Keep},
	})
	if err != nil {
		return false, err
	}
	if after := rows[0]; after != nil && deliveredTo(after, s.ID) == SignalWoke {
		was := t.Hint()
		e.tell(func(state *state, now time.Time) { state.ReplaceUncertain(now, was.Ref) }) // the answer to the commit may be lost
		tx.OnCommit(func() {
			e.tell(func(state *state, now time.Time) {
				state.changed(now, after)
				state.Replaced(now, &storage.Replacement{Was: was, Row: after})
			})
		})
	}
	return true, nil
}
