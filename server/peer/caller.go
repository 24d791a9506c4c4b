package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Caller is the caller for which a node asks another one.
type Caller struct {
	Kind CallerKind
	Hash access.Hash // of the token of a Token

	Person *access.Token // of a Person; nil for others
}

// CallerKind says how a node has recognized a caller.
type CallerKind string

// The kinds of callers.
const (
	Token  CallerKind = "token"  // by a token, which the asked node must know and allow as well
	Person CallerKind = "person" // by a session of the dashboard; the asking node says what it allows
	Local  CallerKind = "local"  // by the permissions of the socket
	Open   CallerKind = "open"   // not at all: the node wants no tokens
)

func (c Caller) text() string {
	switch c.Kind {
	case Person:
		p := person{c.Person.PersonName(), c.Person.Roles, c.Person.Types, c.Person.Expires}
		encoded, err := json.Marshal(p)
		if err != nil {
			panic(fmt.Sprintf("peer: encode a person: %v", err)) // it has texts and a time of this century
		}
		return string(c.Kind) + ":" + base64.RawURLEncoding.EncodeToString(encoded)
	case Token:
		hash, _ := c.Hash.MarshalText()
		return string(c.Kind) + ":" + string(hash)
	}
	return string(c.Kind)
}

func parseCaller(text string) (c Caller, err error) {
	kind, of, _ := strings.Cut(text, ":")
	c.Kind = CallerKind(kind)
	switch c.Kind {
	case Local, Open:
		return c, nil
	case Person:
		c.Person, err = parsePerson(of)
		return c, err
	case Token:
		return c, c.Hash.UnmarshalText([]byte(of))
	}
	return c, fmt.Errorf("the caller %.20q is of no known kind", kind)
}

// person is a person as JSON.
type person struct {
	Name    string        `json:"name"`
	Roles   []access.Role `json:"roles"`
	Types   []string      `json:"types,omitempty"`
	Expires time.Time     `json:"expires"`
}

// parsePerson parses a person. A field that this version does not know is an error: it may be a restriction.
func parsePerson(text string) (*access.Token, error) {
	encoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var p person
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	t, err := access.Named(p.Name)
	if err != nil {
		return nil, fmt.Errorf("the name of a person %w", err)
	}
	t.Roles, t.Types, t.Expires = p.Roles, p.Types, p.Expires
	return t, nil
}

// Header is the header of a request that a node makes for a caller: the asking and the asked node, the caller, a random text
// and the signature of all these and the method. It is no token: it is for one method of one node that runs now.
const Header = "Taskengine-Peer"

// asked are the methods that nodes ask each other.
var asked = []string{
	taskenginev1connect.TaskServiceTaskLogsProcedure,
	taskenginev1connect.TaskServiceEventsProcedure,
	taskenginev1connect.TaskServiceWhyProcedure,
	taskenginev1connect.TaskServiceListWorkersProcedure,
	taskenginev1connect.TaskServiceDrainWorkerProcedure,
	taskenginev1connect.TaskServiceListLimitsProcedure,
	taskenginev1connect.TaskServiceWhyLimitProcedure,
	taskenginev1connect.TaskServiceListNodesProcedure,
	taskenginev1connect.TaskServiceOverviewProcedure,
	taskenginev1connect.TaskServiceDrainNodeProcedure,
	taskenginev1connect.TaskServiceApplyConfigProcedure,
}

// callerKey is the key of a Caller in the context of a request to another node.
type callerKey struct{}

// For returns the context for asking other nodes on behalf of a caller.
func For(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// header returns the header of a request to a method of the node with an id.
func (p *Peers) header(ctx context.Context, method, to string) (string, error) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return "", errors.New("the request has no caller")
	}
	fields := []string{url.PathEscape(p.config.Name), to, c.text(), rand.Text()}
	signed, err := p.secret.sign(ctx, append([]string{"request", method}, fields...)...)
	return strings.Join(append(fields, signed), " "), err
}

// Accept returns the caller for which another node makes a request, and the name of that node. It returns an error unless
// the node is one of this cluster and means this one. path is that of the request.
func (p *Peers) Accept(ctx context.Context, path, header string) (c Caller, node string, err error) {
	fields := strings.Split(header, " ")
	if len(fields) != 5 || strings.Contains(header, "\n") {
		return c, "", fmt.Errorf("the header %s has %d fields, of 5", Header, len(fields))
	}
	if err := p.secret.verify(ctx, fields[4], append([]string{"request", path}, fields[:4]...)...); err != nil {
		return c, "", err
	}
	switch {
	case !slices.Contains(asked, path):
		return c, "", errors.New("nodes do not ask each other for " + path)
	case !p.isSelf(fields[1]):
		return c, "", fmt.Errorf("it is for another node, with the id %.40q", fields[1])
	}
	if node, err = url.PathUnescape(fields[0]); err != nil {
		return c, "", err
	}
	c, err = parseCaller(fields[2])
	return c, node, err
}

// signing adds the header to each request to a node.
type signing struct {
	peers *Peers
	to    string // the id of the node
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	header, err := s.peers.header(r.Context(), r.URL.Path, s.to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, header)
	return s.next.RoundTrip(r)
}
