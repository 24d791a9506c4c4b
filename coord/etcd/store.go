package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord/internal/kv"
	"github.com/taskengine/taskengine/coord/internal/reason"
)

// maxOps is how many operations are in one transaction: etcd takes 128 by default.
const maxOps = 100

// store is a [kv.Store]. The version of a cell is the revision of etcd in which it was changed.
type store struct {
	client  *clientv3.Client
	prefix  string
	user    string          // that etcd knows this node as; "" is none, or that of the certificate
	servers *reason.Servers // why connections fail
	sizes   sizes
}

// Open implements [kv.Store].
func (s *store) Open(ctx context.Context, lease time.Duration) (kv.Session, error) {
	granted, err := s.client.Grant(ctx, int64((lease+time.Second-1)/time.Second))
	if err != nil {
		return nil, fmt.Errorf("get a lease: %w", s.explain(err))
	}
	s.sizes.reset()
	n := &session{store: s, id: granted.ID, lease: time.Duration(granted.TTL) * time.Second}
	n.key = s.prefix + fmt.Sprintf("session/%016x", int64(granted.ID))
	if _, err := s.client.Put(ctx, n.key, " ", clientv3.WithLease(n.id)); err != nil {
		return nil, fmt.Errorf("open a session: %w", s.explain(err))
	}
	return n, nil
}

// Read implements [kv.Store].
func (s *store) Read(ctx context.Context, keys ...string) ([]kv.Cell, error) {
	cells := make([]kv.Cell, 0, len(keys))
	for len(cells) < len(keys) {
		some := keys[len(cells):min(len(cells)+maxOps, len(keys))]
		ops := make([]clientv3.Op, len(some))
		for i, key := range some {
			ops[i] = clientv3.OpGet(s.prefix + key)
		}
		answer, err := s.client.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return nil, fmt.Errorf("read %d cells: %w", len(keys), s.explain(err))
		}
		for i, key := range some {
			cells = append(cells, cellOf(key, answer.Responses[i].GetResponseRange(), answer.Header.Revision))
		}
	}
	return cells, nil
}

// List implements [kv.Store].
func (s *store) List(ctx context.Context, prefix string) ([]kv.Cell, error) {
	answer, err := s.client.Get(ctx, s.prefix+prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the cells that begin with %s: %w", prefix, s.explain(err))
	}
	return s.cellsOf(answer.Kvs), nil
}

func (s *store) cellsOf(found []*mvccpb.KeyValue) []kv.Cell {
	cells := make([]kv.Cell, len(found))
	for i, f := range found {
		cells[i] = kv.Cell{Key: string(f.Key[len(s.prefix):]), Value: f.Value, Version: uint64(f.ModRevision)}
	}
	return cells
}

// cellOf returns a cell as it was read at a revision.
func cellOf(key string, found *etcdserverpb.RangeResponse, revision int64) kv.Cell {
	c := kv.Cell{Key: key}
	if len(found.GetKvs()) == 0 {
		c.Version = uint64(revision)
		return c
	}
	c.Value, c.Version = found.Kvs[0].Value, uint64(found.Kvs[0].ModRevision)
	return c
}

// Swap implements [kv.Store].
func (s *store) Swap(ctx context.Context, changes ...kv.Change) ([]kv.Outcome, error) {
	return s.swap(ctx, nil, changes)
}

// swap makes changes, and only while a session lasts, unless that is nil. Each change is a transaction within the
// transaction of the request, so all of them cost one entry of etcd's log, and do not depend on each other.
func (s *store) swap(ctx context.Context, by *session, changes []kv.Change) ([]kv.Outcome, error) {
	outcomes := make([]kv.Outcome, 0, len(changes))
	for len(outcomes) < len(changes) {
		for some := range kv.Parts(changes[len(outcomes):], maxOps, int(s.sizes.request.Load()), len(s.prefix)) {
			made, err := s.commit(ctx, by, some)
			refused := err != nil && isTooLarge(err)
			if refused {
				err = s.sizes.refuse(some)
			}
			switch {
			case errors.Is(err, kv.ErrOver):
				return nil, err
			case err != nil:
				return nil, fmt.Errorf("change %d cells: %w", len(changes), s.explain(err))
			}
			if refused {
				break // smaller parts of the rest follow
			}
			outcomes = append(outcomes, made...)
		}
	}
	return outcomes, nil
}

// commit makes changes that are one transaction.
func (s *store) commit(ctx context.Context, by *session, changes []kv.Change) ([]kv.Outcome, error) {
	ops, room := make([]clientv3.Op, len(changes)), s.sizes.comparable()
	for i, c := range changes {
		ops[i] = s.op(by, c, &room)
	}
	txn := s.client.Txn(ctx)
	if by != nil {
		txn = txn.If(clientv3.Compare(clientv3.CreateRevision(by.key), ">", 0))
	}
	answer, err := txn.Then(ops...).Commit()
	if err != nil {
		return nil, err
	}
	if !answer.Succeeded {
		return nil, kv.ErrOver
	}
	outcomes := make([]kv.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = outcomeOf(c, answer.Responses[i].GetResponseTxn(), answer.Header.Revision)
	}
	return outcomes, nil
}

// MaxValue implements [kv.Store].
func (s *store) MaxValue() int { return int(s.sizes.value.Load()) }

// op returns the operation of a change. room is how many bytes of values the request may still compare.
func (s *store) op(by *session, c kv.Change, room *int) clientv3.Op {
	key := s.prefix + c.Was.Key
	is := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
	if c.Was.Exists() { // after a restore of etcd another change may have the revision of one that was lost
		is = []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Was.Version)),
		}
		if s.sizes.compares(c.Was.Value, room) {
			is = append(is, clientv3.Compare(clientv3.Value(key), "=", string(c.Was.Value)))
		}
	}
	var change clientv3.Op
	switch {
	case c.Value == nil:
		change = clientv3.OpDelete(key)
	case c.Was.Exists():
		change = clientv3.OpPut(key, string(c.Value), clientv3.WithIgnoreLease())
	case c.Ephemeral:
		change = clientv3.OpPut(key, string(c.Value), clientv3.WithLease(by.id))
	default:
		change = clientv3.OpPut(key, string(c.Value))
	}
	return clientv3.OpTxn(is, []clientv3.Op{change}, []clientv3.Op{clientv3.OpGet(key)})
}

func outcomeOf(c kv.Change, answer *etcdserverpb.TxnResponse, revision int64) kv.Outcome {
	if answer.Succeeded {
		return kv.Outcome{Swapped: true, Now: kv.Cell{Key: c.Was.Key, Value: c.Value, Version: uint64(revision)}}
	}
	return kv.Outcome{Now: cellOf(c.Was.Key, answer.Responses[0].GetResponseRange(), revision)}
}

// Watch implements [kv.Store]. A member of etcd that has lost the others ends the watch, and so does the loss of its
// connection: the library would go on at the same revision, also at an etcd that was restored from a backup and has other
// changes there. All cells are read while the watch goes on already.
func (s *store) Watch(ctx context.Context, prefix string, fn func(kv.Update)) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	watcher := clientv3.NewWatcher(s.client) // with a stream of its own
	defer func() { _ = watcher.Close() }()
	changes := watcher.Watch(whenBroken(ctx, cancel), s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFragment())
	if err := created(ctx, changes); err != nil {
		return s.ended(ctx, err)
	}
	whole, err := s.client.Get(ctx, s.prefix+prefix, clientv3.WithPrefix())
	if err != nil {
		return s.ended(ctx, fmt.Errorf("read what is watched: %w", err))
	}
	u := kv.Update{Whole: true, At: uint64(whole.Header.Revision), Cells: s.cellsOf(whole.Kvs)}
	if ctx.Err() != nil {
		return s.ended(ctx, nil)
	}
	fn(u)
	for answer := range changes {
		if err := answer.Err(); err != nil {
			return s.ended(ctx, fmt.Errorf("watch: %w", err))
		}
		u := kv.Update{}
		for _, e := range answer.Events {
			if e.Kv.ModRevision <= whole.Header.Revision {
				continue
			}
			c := kv.Cell{Key: string(e.Kv.Key[len(s.prefix):]), Version: uint64(e.Kv.ModRevision)}
			if e.Type == clientv3.EventTypePut {
				c.Value = e.Kv.Value
			}
			u.Cells = append(u.Cells, c)
		}
		if len(u.Cells) > 0 && ctx.Err() == nil {
			fn(u)
		}
	}
	return s.ended(ctx, errors.New("the watch was closed"))
}

// created waits until a watch has begun.
func created(ctx context.Context, changes clientv3.WatchChan) error {
	select {
	case answer, ok := <-changes:
		if err := answer.Err(); err != nil || !ok {
			return fmt.Errorf("begin to watch: %w", cmp.Or(err, errors.New("the watch was closed")))
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended returns why a watch has ended: nil if its caller has ended it.
func (s *store) ended(ctx context.Context, err error) error {
	var broken *brokenError
	switch {
	case errors.As(context.Cause(ctx), &broken):
		return fmt.Errorf("watch: %w", s.explain(broken.cause))
	case ctx.Err() != nil:
		return nil
	}
	return s.explain(err)
}

// session is a [kv.Session]: a lease with a key that is there as long as it lasts.
type session struct {
	*store
	id    clientv3.LeaseID
	lease time.Duration
	key   string
	read  int64 // of the goroutine that renews: the revision at which it has last read the members; 0: not yet
}

// Lease implements [kv.Session].
func (n *session) Lease() time.Duration { return n.lease }

// Lag implements [kv.Session]. The server that renews a lease ends it: the leader.
func (n *session) Lag() time.Duration { return 0 }

// errBehind says that the member of etcd that has renewed a lease did not know the newest term.
var errBehind = errors.New("the server that renewed the lease is behind the others")

// Renew implements [kv.Session]. The leader of etcd renews a lease without asking the other members, and a leader that hung
// does not know at first that another one was elected meanwhile. So Renew reads the members first, which a majority
// confirms in the term of the real leader, and does not accept a renewal of an older term. If another leader is elected
// later, it begins all leases anew.
func (n *session) Renew(ctx context.Context) (kv.Renewal, error) {
	read, err := n.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(n.key), ">", 0)).
		Then(clientv3.OpGet(n.prefix+kv.Members, clientv3.WithPrefix(), clientv3.WithMinModRev(n.read+1))).Commit()
	if err != nil {
		return kv.Renewal{}, fmt.Errorf("read the members: %w", n.explain(err))
	}
	if !read.Succeeded {
		return kv.Renewal{}, kv.ErrOver
	}
	renewed, err := n.client.KeepAliveOnce(ctx, n.id)
	if err != nil {
		return kv.Renewal{}, fmt.Errorf("renew the lease: %w", n.explain(overIfGone(err)))
	}
	if renewed.RaftTerm < read.Header.RaftTerm {
		return kv.Renewal{}, errBehind
	}
	n.read = read.Header.Revision
	return kv.Renewal{At: uint64(n.read), Members: n.cellsOf(read.Responses[0].GetResponseRange().Kvs)}, nil
}

// overIfGone returns [kv.ErrOver] for the error that a lease has ended.
func overIfGone(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return kv.ErrOver
	}
	return err
}

// Swap implements [kv.Session].
func (n *session) Swap(ctx context.Context, changes ...kv.Change) ([]kv.Outcome, error) {
	outcomes, err := n.swap(ctx, n, changes)
	if err != nil {
		return nil, overIfGone(err)
	}
	return outcomes, nil
}

// Abandon implements [kv.Session]. Only Renew renews a lease.
func (n *session) Abandon() {}

// End implements [kv.Session].
func (n *session) End(ctx context.Context) error {
	if _, err := n.client.Revoke(ctx, n.id); err != nil {
		return fmt.Errorf("end the lease: %w", overIfGone(err))
	}
	return nil
}
