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

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/coord/internal/reason"
)

// maxOps is how many operations are in one transaction: etcd takes 128 by default.
const maxOps = 100

// store is a [cells.Store]. The version of a cell is the revision of etcd in which it was changed.
type store struct {
	client  *clientv3.Client
	prefix  string
	user    string          // that etcd knows this node as; "" is none, or that of the certificate
	servers *reason.Servers // why connections fail
	sizes   sizes
}

// Open implements [cells.Store].
func (s *store) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
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

// Read implements [cells.Store].
func (s *store) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	all := make([]cells.Cell, 0, len(keys))
	for len(all) < len(keys) {
		some := keys[len(all):min(len(all)+maxOps, len(keys))]
		ops := make([]clientv3.Op, len(some))
		for i, key := range some {
			ops[i] = clientv3.OpGet(s.prefix + key)
		}
		answer, err := s.client.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return nil, fmt.Errorf("read %d cells: %w", len(keys), s.explain(err))
		}
		for i, key := range some {
			all = append(all, cellOf(key, answer.Responses[i].GetResponseRange(), answer.Header.Revision))
		}
	}
	return all, nil
}

// List implements [cells.Store].
func (s *store) List(ctx context.Context, prefix string) ([]cells.Cell, error) {
	answer, err := s.client.Get(ctx, s.prefix+prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the cells that begin with %s: %w", prefix, s.explain(err))
	}
	return s.cellsOf(answer.Kvs), nil
}

func (s *store) cellsOf(found []*mvccpb.KeyValue) []cells.Cell {
	all := make([]cells.Cell, len(found))
	for i, f := range found {
		all[i] = cells.Cell{Key: string(f.Key[len(s.prefix):]), Value: f.Value, Version: uint64(f.ModRevision)}
	}
	return all
}

// cellOf returns a cell as it was read at a revision.
func cellOf(key string, found *etcdserverpb.RangeResponse, revision int64) cells.Cell {
	c := cells.Cell{Key: key}
	if len(found.GetKvs()) == 0 {
		c.Version = uint64(revision)
		return c
	}
	c.Value, c.Version = found.Kvs[0].Value, uint64(found.Kvs[0].ModRevision)
	return c
}

// Swap implements [cells.Store].
func (s *store) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	return s.swap(ctx, nil, changes)
}

// swap makes changes, and only while a session lasts, unless that is nil. Each change is a transaction within the
// transaction of the request, so all of them cost one entry of etcd's log, and do not depend on each other.
func (s *store) swap(ctx context.Context, by *session, changes []cells.Change) ([]cells.Outcome, error) {
	outcomes := make([]cells.Outcome, 0, len(changes))
	for len(outcomes) < len(changes) {
		for some := range cells.Parts(changes[len(outcomes):], maxOps, int(s.sizes.request.Load()), len(s.prefix)) {
			made, err := s.commit(ctx, by, some)
			refused := err != nil && isTooLarge(err)
			if refused {
				err = s.sizes.refuse(some)
			}
			switch {
			case errors.Is(err, cells.ErrOver):
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
func (s *store) commit(ctx context.Context, by *session, changes []cells.Change) ([]cells.Outcome, error) {
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
		return nil, cells.ErrOver
	}
	outcomes := make([]cells.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = outcomeOf(c, answer.Responses[i].GetResponseTxn(), answer.Header.Revision)
	}
	return outcomes, nil
}

// MaxValue implements [cells.Store].
func (s *store) MaxValue() int { return int(s.sizes.value.Load()) }

// op returns the operation of a change. room is how many bytes of values the request may still compare.
func (s *store) op(by *session, c cells.Change, room *int) clientv3.Op {
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

func outcomeOf(c cells.Change, answer *etcdserverpb.TxnResponse, revision int64) cells.Outcome {
	if answer.Succeeded {
		return cells.Outcome{Swapped: true, Now: cells.Cell{Key: c.Was.Key, Value: c.Value, Version: uint64(revision)}}
	}
	return cells.Outcome{Now: cellOf(c.Was.Key, answer.Responses[0].GetResponseRange(), revision)}
}

// Watch implements [cells.Store]. A member of etcd that has lost the others ends the watch, and so does the loss of its
// connection: the library would go on at the same revision, also at an etcd that was restored from a backup and has other
// changes there. All cells are read while the watch goes on already.
func (s *store) Watch(ctx context.Context, prefix string, fn func(cells.Update)) error {
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
		return s.ended(ctx, fmt.Errorf("read the watched keys: %w", err))
	}
	u := cells.Update{Whole: true, At: uint64(whole.Header.Revision), Cells: s.cellsOf(whole.Kvs)}
	if ctx.Err() != nil {
		return s.ended(ctx, nil)
	}
	fn(u)
	for answer := range changes {
		if err := answer.Err(); err != nil {
			return s.ended(ctx, fmt.Errorf("watch: %w", err))
		}
		u := cells.Update{}
		for _, e := range answer.Events {
			if e.Kv.ModRevision <= whole.Header.Revision {
				continue
			}
			c := cells.Cell{Key: string(e.Kv.Key[len(s.prefix):]), Version: uint64(e.Kv.ModRevision)}
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

// session is a [cells.Session]: a lease with a key that is there as long as it lasts.
type session struct {
	*store
	id    clientv3.LeaseID
	lease time.Duration
	key   string
	read  int64 // of the goroutine that renews: the revision at which it has last read the members; 0: not yet
}

// Lease implements [cells.Session].
func (n *session) Lease() time.Duration { return n.lease }

// Lag implements [cells.Session]. The server that renews a lease ends it: the leader.
func (n *session) Lag() time.Duration { return 0 }

// errBehind says that the member of etcd that has renewed a lease did not know the newest term.
var errBehind = errors.New("the server that renewed the lease is behind the others")

// Renew implements [cells.Session]. The leader of etcd renews a lease without asking the other members, and a leader that hung
// does not know at first that another one was elected. So Renew reads the members first, which a majority
// confirms in the term of the real leader, and does not accept a renewal of an older term. If another leader is elected
// later, it starts all leases again.
func (n *session) Renew(ctx context.Context) (cells.Renewal, error) {
	read, err := n.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(n.key), ">", 0)).
		Then(clientv3.OpGet(n.prefix+cells.Members, clientv3.WithPrefix(), clientv3.WithMinModRev(n.read+1))).Commit()
	if err != nil {
		return cells.Renewal{}, fmt.Errorf("read the members: %w", n.explain(err))
	}
	if !read.Succeeded {
		return cells.Renewal{}, cells.ErrOver
	}
	renewed, err := n.client.KeepAliveOnce(ctx, n.id)
	if err != nil {
		return cells.Renewal{}, fmt.Errorf("renew the lease: %w", n.explain(overIfGone(err)))
	}
	if renewed.RaftTerm < read.Header.RaftTerm {
		return cells.Renewal{}, errBehind
	}
	n.read = read.Header.Revision
	return cells.Renewal{At: uint64(n.read), Members: n.cellsOf(read.Responses[0].GetResponseRange().Kvs)}, nil
}

// overIfGone returns [cells.ErrOver] for the error that a lease has ended.
func overIfGone(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return cells.ErrOver
	}
	return err
}

// Swap implements [cells.Session].
func (n *session) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	outcomes, err := n.swap(ctx, n, changes)
	if err != nil {
		return nil, overIfGone(err)
	}
	return outcomes, nil
}

// Abandon implements [cells.Session]. Only Renew renews a lease.
func (n *session) Abandon() {}

// End implements [cells.Session].
func (n *session) End(ctx context.Context) error {
	if _, err := n.client.Revoke(ctx, n.id); err != nil {
		return fmt.Errorf("end the lease: %w", overIfGone(err))
	}
	return nil
}
