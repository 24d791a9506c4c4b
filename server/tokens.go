package server

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/tokens"
)

// errNoTokens is the error of a node at which tokens would have no effect.
var errNoTokens = errors.New("the node wants no tokens, so they would have no effect; set api.tokens in its configuration")

// AddToken makes a token that the cluster keeps.
func (a *API) AddToken(ctx context.Context, req *taskenginev1.AddTokenRequest) (*taskenginev1.AddTokenResponse, error) {
	maker, by, err := a.keeper(ctx, req.GetBy())
	if err != nil {
		return nil, a.answer(err)
	}
	q := tokens.Request{Name: req.GetName(), Types: req.GetTypes()}
	for _, r := range req.GetRoles() {
		q.Roles = append(q.Roles, access.Role(r))
	}
	if req.GetExpiresIn() != nil {
		if q.Expires, err = durationOf("expires_in", req.GetExpiresIn()); err == nil && q.Expires == 0 {
			err = invalid("expires_in is 0; leave it out for a token that does not expire")
		}
	}
	if err != nil {
		return nil, a.answer(err)
	}
	r, secret, err := a.kept.Add(ctx, q, by, maker)
	if err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a token was added", "token", r.Name, "roles", r.Roles, "types", r.Types, "expires", r.Expires)
	return &taskenginev1.AddTokenResponse{Token: a.tokenMessage(&r), Secret: secret}, nil
}

// ListTokens returns the tokens of the cluster, and the tokens of the node's file.
func (a *API) ListTokens(ctx context.Context, req *taskenginev1.ListTokensRequest) (*taskenginev1.ListTokensResponse, error) {
	if _, _, err := a.keeper(ctx, ""); err != nil {
		return nil, a.answer(err)
	}
	all, err := a.kept.List(ctx)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListTokensResponse{}
	for i := range all {
		if m := a.tokenMessage(&all[i]); req.GetRevoked() || m.GetState() == tokens.Valid {
			res.Tokens = append(res.Tokens, m)
		}
	}
	for _, t := range a.kept.File().List() {
		m := a.tokenMessage(&tokens.Record{Name: t.Name, Roles: t.Roles, Types: t.Types, Created: t.Created, Expires: t.Expires})
		m.InFile = true
		res.Tokens = append(res.Tokens, m)
	}
	return res, nil
}

// RevokeToken revokes a token that the cluster keeps.
func (a *API) RevokeToken(ctx context.Context, req *taskenginev1.RevokeTokenRequest) (*taskenginev1.RevokeTokenResponse, error) {
	_, by, err := a.keeper(ctx, req.GetBy())
	if err != nil {
		return nil, a.answer(err)
	}
	r, err := a.kept.Revoke(ctx, req.GetName(), by, req.GetForce())
	if err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a token was revoked", "token", r.Name)
	return &taskenginev1.RevokeTokenResponse{Token: a.tokenMessage(&r)}, nil
}

// RotateToken gives a token that the cluster keeps another secret.
func (a *API) RotateToken(ctx context.Context, req *taskenginev1.RotateTokenRequest) (*taskenginev1.RotateTokenResponse, error) {
	maker, by, err := a.keeper(ctx, req.GetBy())
	if err != nil {
		return nil, a.answer(err)
	}
	grace, err := durationOf("grace", req.GetGrace())
	if err != nil {
		return nil, a.answer(err)
	}
	r, secret, err := a.kept.Rotate(ctx, req.GetName(), by, grace, maker)
	if err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a token got another secret", "token", r.Name, "grace", grace)
	return &taskenginev1.RotateTokenResponse{Token: a.tokenMessage(&r), Secret: secret}, nil
}

// keeper returns the token and the name of the caller of a request about tokens. The token is nil if the caller needs none.
func (a *API) keeper(ctx context.Context, said string) (maker *access.Token, by string, err error) {
	if a.kept == nil {
		return nil, "", connect.NewError(connect.CodeFailedPrecondition, errNoTokens)
	}
	if len(said) > maxBy {
		return nil, "", invalid("by has %d bytes, of %d allowed", len(said), maxBy)
	}
	if c := callerOf(ctx); c != nil {
		if maker, err = a.tokenOf(c); err != nil {
			return nil, "", err
		}
	}
	return maker, byOf(ctx, said), nil
}

// tokenMessage returns the message of a token.
func (a *API) tokenMessage(r *tokens.Record) *taskenginev1.Token {
	now := a.engine.Now()
	m := &taskenginev1.Token{
		Name: text(r.Name), State: r.State(now), Types: r.Types, CreatedAt: stamp(r.Created), By: text(r.By), ExpiresAt: stamp(r.Expires),
		RotatedAt: stamp(r.Rotated), RotatedBy: text(r.RotatedBy), EarlierUntil: stamp(r.EarlierUntil(now)), RevokedAt: stamp(r.Revoked), RevokedBy: text(r.RevokedBy),
	}
	for _, role := range r.Roles {
		m.Roles = append(m.Roles, string(role))
	}
	return m
}

// WatchTokens adds the age of the tokens of the cluster, as the node knows them.
func (m *Metrics) WatchTokens(age func() time.Duration) { m.tokens.Store(&age) }
