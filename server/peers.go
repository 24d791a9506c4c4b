package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// askedKey is the key of true in the context of a request of another node, which is not passed on.
type askedKey struct{}

// greeting has the node prove to other nodes who it is.
func (a *API) greeting(h http.Handler) http.Handler {
	if a.peers == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peer.Greeting {
			a.peers.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// admitPeer returns the context of a request that another node makes for a caller, or why it is refused. The caller needs the
// rights that it needs here.
func (a *API) admitPeer(ctx context.Context, path, signed string, from origin) (context.Context, error) {
	if a.peers == nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("this node is alone, and takes no requests of other nodes"))
	}
	by, node, err := a.peers.Accept(ctx, path, signed)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("a request of another node is refused: %w", err))
	}
	method := strings.TrimPrefix(path, procedures)
	from.isSocket = by.Kind == peer.Local
	from.address += " by node " + node
	ctx = context.WithValue(ctx, askedKey{}, true)
	if isManagement(method) {
		ctx = context.WithValue(ctx, originKey{}, from)
	}
	switch {
	case a.tokens == nil || by.Kind == peer.Local:
		return ctx, nil
	case by.Kind == peer.Open:
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("node %.80q wants no tokens, and this node does: give both api.tokens", node))
	}
	return a.admitCaller(ctx, &caller{hash: by.Hash, person: by.Person, method: method, right: rights[method]}, method)
}

// forCaller returns the context for asking other nodes on behalf of the caller of a request.
func (a *API) forCaller(ctx context.Context) context.Context {
	switch c := callerOf(ctx); {
	case c != nil && c.person != nil:
		return peer.For(ctx, peer.Caller{Kind: peer.Person, Person: c.person})
	case c != nil:
		return peer.For(ctx, peer.Caller{Kind: peer.Token, Hash: c.hash})
	case a.tokens != nil:
		return peer.For(ctx, peer.Caller{Kind: peer.Local})
	}
	return peer.For(ctx, peer.Caller{Kind: peer.Open})
}

// others returns the other nodes that a request is passed on to. A request of another node is not. The error says why the nodes are not
// known.
func (a *API) others(ctx context.Context) ([]coord.Member, error) {
	if a.peers == nil || ctx.Value(askedKey{}) != nil {
		return nil, nil
	}
	all, err := a.peers.All()
	return a.peers.Others(all), err
}

// ask passes a request on to the other nodes, and returns their answers and the nodes that have none.
func ask[Res any](ctx context.Context, a *API, fn func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*Res, error)) ([]peer.Answer[*Res], []*taskenginev1.SilentNode) {
	nodes, err := a.others(ctx)
	if err != nil {
		return nil, []*taskenginev1.SilentNode{unknownNodes(err)}
	}
	return sorted(peer.Ask(a.forCaller(ctx), a.peers, nodes, fn))
}

// sorted divides answers into those and the nodes that have none. That no object is found is an answer.
func sorted[Res any](all []peer.Answer[*Res]) (answers []peer.Answer[*Res], silent []*taskenginev1.SilentNode) {
	for _, one := range all {
		switch {
		case one.Err == nil:
			answers = append(answers, one)
		case connect.CodeOf(one.Err) != connect.CodeNotFound:
			silent = append(silent, silentOf(&one.Node, one.Err))
		}
	}
	return answers, silent
}

// silentOf returns the message of a node that did not answer, or refused to.
func silentOf(m *coord.Member, err error) *taskenginev1.SilentNode {
	said := err.Error()
	if remote := new(connect.Error); errors.As(err, &remote) {
		said = remote.Message()
	}
	return &taskenginev1.SilentNode{Node: text(nodeName(m)), Id: m.Incarnation.String(), Address: text(m.Address), Problem: text(said)}
}

// unknownNodes stands for the other nodes if they are not known.
func unknownNodes(err error) *taskenginev1.SilentNode {
	return &taskenginev1.SilentNode{Problem: text(err.Error())}
}

// nodeName returns the name of a node for people.
func nodeName(m *coord.Member) string {
	if m.Name == "" {
		return m.Incarnation.String()
	}
	return m.Name
}
