package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/coord/internal/reason"
)

// store is a [cells.Store]. The version of a cell is the number of the transaction that has changed it (mzxid). Its mark is how
// often the node was changed since it was created, by which ZooKeeper compares.
type store struct {
	options Options
	acl     []zk.ACL
	servers *reason.Servers // why connections fail
	sizes   sizes
	mark    atomic.Pointer[mark] // of the newest renewal of a session; nil: there was none

	mu     sync.Mutex
	base   *conn            // guarded by mu: for requests outside of sessions; nil: not opened yet, or it was dropped
	made   bool             // guarded by mu: the folders are there
	known  map[string]int64 // guarded by mu: mzxid by path; watched nodes stay until a watch has reported their removal
	closed bool             // guarded by mu
}

// mark is a change of the node of a session, which a server has that is not older.
type mark struct {
	path  string
	mzxid int64
}

func newStore(o Options) *store {
	s := &store{options: o, acl: zk.WorldACL(zk.PermAll), known: map[string]int64{}}
	s.servers = reason.NewServers(len(o.Endpoints), o.TLS)
	switch {
	case o.SASL:
		s.acl = []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: o.User}}
	case o.User != "":
		s.acl = zk.DigestACL(zk.PermAll, o.User, o.Password)
	}
	return s
}

func (s *store) path(key string) string { return s.options.Prefix + "/" + key }

// conn returns the connection for requests outside of sessions, and has made the folders.
func (s *store) conn(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, coord.ErrClosed
	}
	if s.base == nil {
		c, err := dial(s.options, s.servers, s.drop)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		s.base = c
	}
	c, made := s.base, s.made
	s.mu.Unlock()
	if made {
		return c, nil
	}
	if _, err := c.await(ctx); err != nil {
		return nil, s.noticed(c, err)
	}
	_, err := do(ctx, func() (struct{}, error) { return struct{}{}, s.makeFolders(c) })
	if err != nil {
		return nil, s.noticed(c, fmt.Errorf("create the nodes of the cluster: %w", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = true
	return c, nil
}

// noticed drops a connection that did not answer in time, so that the next call opens another one. It returns err with
// an explanation.
func (s *store) noticed(c *conn, err error) error {
	if errors.Is(err, errSilent) {
		s.drop(c)
	}
	return s.explain(err)
}

// drop closes a connection, so that the next call opens another one. The connection outside of sessions is also dropped
// when the connection to the server was lost. The library would connect and set the watches again, for the changes
// after the latest that it has seen. But that may be from an answer on the new connection, so that changes are missed.
func (s *store) drop(c *conn) {
	s.mu.Lock()
	if s.base == c {
		s.base = nil
	}
	s.mu.Unlock()
	c.close()
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.base != nil {
		s.base.close()
	}
}

// clockNode is changed to learn the number of the latest transaction.
const clockNode = "clock"

// catchUp returns the number of a transaction that begins now. The server of the connection has all transactions before
// it. A Sync would not do: a leader that does not know yet that another one was elected answers it on its own.
func (s *store) catchUp(c *conn) (int64, error) {
	known := s.mark.Load()
	now, err := c.Set(s.path(clockNode), nil, -1)
	if errors.Is(err, zk.ErrNoNode) { // the servers have begun without data
		s.makeAgain()
	}
	if err != nil {
		return 0, fmt.Errorf("read the latest transaction: %w", err)
	}
	if known != nil && now.Mzxid < known.mzxid { // the servers have gone back in time
		s.mark.CompareAndSwap(known, nil)
	}
	return now.Mzxid, nil
}

// sessionFolder has a node for each session.
const sessionFolder = "session"

func (s *store) makeFolders(c *conn) error {
	for _, folder := range append([]string{clockNode, sessionFolder}, cells.Folders()...) {
		path := s.path(folder)
		for i := 1; i <= len(path); i++ {
			if i < len(path) && path[i] != '/' {
				continue
			}
			if err := s.makeFolder(c, path[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeAgain lets the next call of conn make the folders again.
func (s *store) makeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = false
}

// makeFolder creates a node that may be there. ZooKeeper refuses that first if it is in one in which this node may create
// nothing.
func (s *store) makeFolder(c *conn, path string) error {
	_, err := c.Create(path, nil, 0, s.acl)
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		if exists, _, failed := c.Exists(path); failed == nil && exists {
			return nil
		}
		return s.mayNotCreate(err, path)
	}
	return err
}

// see remembers the state of a node and returns its cell. The state may be older than the remembered one: the servers may
// have been restored from a copy.
func (s *store) see(key string, data []byte, stat *zk.Stat) cells.Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[s.path(key)] = stat.Mzxid
	return cells.Cell{Key: key, Value: data, Version: uint64(stat.Mzxid), Mark: int64(stat.Version)}
}

// gone forgets the known nodes of a folder that are not among its children after a transaction, and returns their cells.
func (s *store) gone(folder string, children []string, after int64) []cells.Cell {
	there := make(map[string]bool, len(children))
	for _, child := range children {
		there[child] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []cells.Cell
	for path, mzxid := range s.known {
		name, isIn := strings.CutPrefix(path, s.path(folder)+"/")
		if isIn && !there[name] && mzxid < after {
			delete(s.known, path)
			all = append(all, cells.Cell{Key: folder + "/" + name, Version: uint64(after)})
		}
	}
	return all
}

// latest returns the numbers of the latest transactions that have made or removed a node of the folders of some keys. What
// is read after that is not older.
func (s *store) latest(c *conn, keys []string) (map[string]uint64, error) {
	after := map[string]uint64{}
	for _, key := range keys {
		folder := path.Dir(s.path(key))
		if _, known := after[folder]; known {
			continue
		}
		_, stat, err := c.Exists(folder)
		if err != nil {
			return nil, err
		}
		after[folder] = uint64(stat.Pzxid)
	}
	return after, nil
}

// found returns the cell of an answer with a node.
func (s *store) found(key string, data []byte, stat *zk.Stat, err error) (cells.Cell, error) {
	if err != nil {
		return cells.Cell{}, err
	}
	return s.see(key, data, stat), nil
}

// Read implements [cells.Store]. A server that is behind the others gets their changes first.
func (s *store) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	for {
		all, err := s.read(ctx, keys)
		if !isLost(err) || ctx.Err() != nil {
			return all, err
		}
	}
}

// isLost reports whether a request has no answer because its connection was lost. The library passes on the error of the
// network if the request itself met it.
func isLost(err error) bool {
	var network *net.OpError
	return errors.Is(err, errSilent) || errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, zk.ErrClosing) || errors.Is(err, io.EOF) || errors.As(err, &network)
}

func (s *store) read(ctx context.Context, keys []string) ([]cells.Cell, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := do(ctx, func() ([]cells.Cell, error) {
		if _, err := s.catchUp(c); err != nil {
			return nil, err
		}
		after, err := s.latest(c, keys)
		if err != nil {
			return nil, err
		}
		return each(keys, func(key string) (cells.Cell, error) { return s.getAfter(c, key, after) })
	})
	if err != nil {
		return nil, s.noticed(c, fmt.Errorf("read %d nodes: %w", len(keys), err))
	}
	return all, nil
}

// List implements [cells.Store].
func (s *store) List(ctx context.Context, prefix string) ([]cells.Cell, error) {
	for {
		all, err := s.list(ctx, path.Dir(prefix), prefix)
		if !isLost(err) || ctx.Err() != nil {
			return all, err
		}
	}
}

// list is one attempt of List.
func (s *store) list(ctx context.Context, folder, prefix string) ([]cells.Cell, error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := do(ctx, func() ([]cells.Cell, error) {
		if _, err := s.catchUp(c); err != nil {
			return nil, err
		}
		children, _, err := c.Children(s.path(folder))
		if err != nil {
			return nil, err
		}
		children = slices.DeleteFunc(children, func(child string) bool { return !strings.HasPrefix(folder+"/"+child, prefix) })
		return each(children, func(child string) (cells.Cell, error) {
			key := folder + "/" + child
			data, stat, err := c.Get(s.path(key))
			if errors.Is(err, zk.ErrNoNode) {
				return cells.Cell{}, nil
			}
			return s.found(key, data, stat, err)
		})
	})
	if err != nil {
		return nil, s.noticed(c, fmt.Errorf("list the nodes that begin with %s: %w", prefix, err))
	}
	return slices.DeleteFunc(all, func(c cells.Cell) bool { return !c.Exists() }), nil
}

// get reads a node. The answer that there is none has no number, and may be older than what another connection has
// learned. So get then reads the number of the latest transaction that has made or removed a node of the same
// folder, and asks again: that answer is not older. It may be newer, so a removal is certain only by Watch.
func (s *store) get(c *conn, key string) (cells.Cell, error) {
	data, stat, err := c.Get(s.path(key))
	if !errors.Is(err, zk.ErrNoNode) {
		return s.found(key, data, stat, err)
	}
	after, err := s.latest(c, []string{key})
	if err != nil {
		return cells.Cell{}, err
	}
	return s.getAfter(c, key, after)
}

// getAfter reads a node after latest has.
func (s *store) getAfter(c *conn, key string, after map[string]uint64) (cells.Cell, error) {
	data, stat, err := c.Get(s.path(key))
	if errors.Is(err, zk.ErrNoNode) {
		return cells.Cell{Key: key, Version: after[path.Dir(s.path(key))]}, nil
	}
	return s.found(key, data, stat, err)
}

// each calls fn for each of some values, many at once: the library sends requests before the earlier ones are answered.
func each[T, R any](values []T, fn func(T) (R, error)) ([]R, error) {
	results := make([]R, len(values))
	errs := make([]error, len(values))
	var wg sync.WaitGroup
	room := make(chan struct{}, 64)
	for i, v := range values {
		room <- struct{}{}
		wg.Go(func() {
			results[i], errs[i] = fn(v)
			<-room
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}
