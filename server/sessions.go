package server

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// errNoSessions is the error of a node without sessions.
var errNoSessions = errors.New("nobody logs in to this node at an identity provider, so there are no sessions; ui.oidc in its configuration says how")

// RevokeSessions ends the sessions of a person.
func (a *API) RevokeSessions(ctx context.Context, req *taskenginev1.RevokeSessionsRequest) (*taskenginev1.RevokeSessionsResponse, error) {
	if a.sessions == nil {
		return nil, a.answer(connect.NewError(connect.CodeFailedPrecondition, errNoSessions))
	}
	if len(req.GetBy()) > maxBy {
		return nil, a.answer(invalid("by has %d bytes, of %d allowed", len(req.GetBy()), maxBy))
	}
	person, err := access.Named(strings.TrimPrefix(req.GetPerson(), access.PersonPrefix))
	if err != nil {
		return nil, a.answer(invalid("the name of a person %w", err))
	}
	ending := access.Ending{Person: person.PersonName(), Before: a.sessions.Time()}
	if err := a.sessions.End(ctx, ending, "", byOf(ctx, req.GetBy())); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "the sessions of a person were ended", "person", person.Name)
	return &taskenginev1.RevokeSessionsResponse{Before: stamp(ending.Before)}, nil
}
