// Package peer lets the nodes of a cluster ask each other for what only one of them knows.
//
// Nodes recognize each other by a secret in the settings of their coordinator. Before a node asks another one for the first
// time, that proves that it has the secret and is the node that is meant: a stranger at a wrong address learns nothing but a
// random text. Each request is then signed for one method and one node, and names the caller by the hash of its token, so
// that the asked node decides about the rights of the caller again. See docs/adr/0144.
package peer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/secret"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// DefaultTimeout is how long a node waits for the answer of another one.
const DefaultTimeout = 3 * time.Second

// Greeting is the path at which a node proves who it is.
const Greeting = "/taskengine/peer"

const (
	nonceHeader = "Taskengine-Nonce"
	maxNonce    = 100
	maxGreeting = 64 << 10
	idleTimeout = time.Minute
	idleConns   = 2  // for each node
	maxAtOnce   = 64 // nodes that are asked at once
	maxRemember = 1000
)

// Config configures [Peers].
type Config struct {
	Name    string                // of this node
	Self    func() task.ID        // the incarnation of this node
	Members func() []coord.Member // nodes that are alive, this one included; nil if they are not known
	Secrets coord.Config          // the settings that all nodes of the cluster share
	TLS     *tls.Config           // of connections with nodes that encrypt; nil is the default
	Timeout time.Duration         // for the answer of a node; 0 is DefaultTimeout
	Log     *slog.Logger
}

// Peers are the other nodes of a cluster.
type Peers struct {
	config    Config
	secret    signer
	transport *http.Transport

	mu  sync.Mutex
	met map[string]string // guarded by mu: the address of each node that has proved who it is, by its id
}

// New returns the other nodes of a cluster.
func New(c Config) *Peers {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	return &Peers{
		config: c, secret: signer{secret.New(c.Secrets, coord.SecretSetting)}, met: make(map[string]string),
		transport: &http.Transport{
			TLSClientConfig: c.TLS, ForceAttemptHTTP2: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: idleConns,
			TLSHandshakeTimeout: c.Timeout,
		},
	}
}

// Close closes the connections that no request uses.
func (p *Peers) Close() { p.transport.CloseIdleConnections() }

// Timeout returns how long a node waits for the answer of another one.
func (p *Peers) Timeout() time.Duration { return p.config.Timeout }

// Self returns the incarnation of this node.
func (p *Peers) Self() task.ID { return p.config.Self() }

// All returns the nodes that are alive, this one included. It returns an error if they are not known, as while this node cannot
// prove that it is alive.
func (p *Peers) All() ([]coord.Member, error) {
	all := p.config.Members()
	if len(all) == 0 {
		return nil, errors.New("this node is cut off from the coordinator, and does not know the other nodes")
	}
	return all, nil
}

// IsSelf reports whether a member is this node.
func (p *Peers) IsSelf(m *coord.Member) bool { return m.Uses(p.config.Self()) }

// isSelf reports whether an id is one of this node.
func (p *Peers) isSelf(text string) bool {
	id, err := task.ParseID(text)
	m := coord.Member{Incarnation: id}
	return err == nil && m.Uses(p.config.Self())
}

// client returns a client of a node, which has proved who it is.
func (p *Peers) client(ctx context.Context, m *coord.Member) (taskenginev1connect.TaskServiceClient, error) {
	if m.Address == "" {
		return nil, errors.New("it announces no address of its API: it is being started, has api.advertise: none, or no api.listen")
	}
	id := m.Incarnation.String()
	p.mu.Lock()
	hasMet := p.met[id] == m.Address
	p.mu.Unlock()
	if !hasMet {
		if err := p.meet(ctx, m); err != nil {
			return nil, err
		}
		p.mu.Lock()
		if len(p.met) >= maxRemember { // of nodes that have left, mostly
			clear(p.met)
		}
		p.met[id] = m.Address
		p.mu.Unlock()
	}
	return taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: signing{p, id, p.transport}, CheckRedirect: noRedirect}, m.Address), nil
}

// noRedirect refuses to follow a redirection: no node answers with one.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// greeting is the proof of a node.
type greeting struct {
	ID    string `json:"id"` // its incarnation
	Node  string `json:"node"`
	Proof string `json:"proof"`
}

// meet returns an error unless the node at the address of a member is that member.
func (p *Peers) meet(ctx context.Context, m *coord.Member) error {
	nonce := rand.Text()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.Address, "/")+Greeting, nil)
	if err != nil {
		return err
	}
	req.Header.Set(nonceHeader, nonce)
	res, err := (&http.Client{Transport: p.transport, CheckRedirect: noRedirect}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var g greeting
	text, err := io.ReadAll(io.LimitReader(res.Body, maxGreeting))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &g) != nil {
		return fmt.Errorf("what answers at %s, with HTTP status %d, is no node that can be asked; see api.advertise of that node", m.Address, res.StatusCode)
	}
	if err := p.secret.verify(ctx, g.Proof, "greeting", nonce, g.ID, g.Node); err != nil {
		return fmt.Errorf("a node of another cluster answers at %s; see api.advertise of that node", m.Address)
	}
	if id, err := task.ParseID(g.ID); err != nil || !m.Uses(id) {
		return fmt.Errorf("the node %.80q answers at %s, which is not the one that announces this address; see api.advertise of that node", g.Node, m.Address)
	}
	return nil
}

// ServeHTTP proves to another node which one this is.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	nonce := r.Header.Get(nonceHeader)
	if nonce == "" || len(nonce) > maxNonce || strings.ContainsFunc(nonce, func(r rune) bool { return r <= ' ' || r > '~' }) {
		http.Error(w, "only nodes ask here", http.StatusBadRequest)
		return
	}
	g := greeting{ID: p.config.Self().String(), Node: strings.ToValidUTF8(strings.ReplaceAll(p.config.Name, "\n", " "), "?")}
	var err error
	if g.Proof, err = p.secret.sign(r.Context(), "greeting", nonce, g.ID, g.Node); err != nil {
		p.config.Log.Warn("the node cannot prove to another one who it is", "error", err)
		http.Error(w, "the coordinator does not answer", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(g) // if it fails, the other node has gone
}

// forget has a node prove again who it is before it is asked.
func (p *Peers) forget(m *coord.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.met, m.Incarnation.String())
}

// Others returns the nodes among all that are not this one.
func (p *Peers) Others(all []coord.Member) []coord.Member {
	return slices.DeleteFunc(slices.Clone(all), func(m coord.Member) bool { return p.IsSelf(&m) })
}
