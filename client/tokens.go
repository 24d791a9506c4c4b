package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// TokenState says whether nodes accept a token. A node of a newer version may have others.
type TokenState string

// The states of tokens.
const (
	TokenValid   TokenState = "valid"
	TokenExpired TokenState = "expired"
	TokenRevoked TokenState = "revoked"
)

// Token is a token of clients without its secret.
type Token struct {
	Name  string
	State TokenState
	Roles []string
	Types []string // of tasks; none: all

	CreatedAt time.Time
	By        string    // who added it; empty for one of a file
	ExpiresAt time.Time // zero: never
	InFile    bool      // it is in the file of the node that was asked, and not kept by the cluster

	RotatedAt    time.Time // when it got its secret; zero: when it was added
	RotatedBy    string
	EarlierUntil time.Time // until when the secret from before the rotation is accepted; zero: it is not
	RevokedAt    time.Time
	RevokedBy    string
}

// TokenRequest describes a token to be made.
type TokenRequest struct {
	Name      string        // 1 to 100 letters, digits, and . _ - @
	Roles     []string      // at least one
	Types     []string      // of tasks; * at the end of one stands for all that begin so; none: all types
	ExpiresIn time.Duration // 0: it does not expire
	By        string        // who asks; with a token, the name of that comes first
}

// AddToken makes a token that the nodes accept within about a second, and returns its secret, which is kept nowhere. The error wraps [ErrExists] if
// a valid token has the name. The call is not repeated: after an error without an answer the token may be there, and [Client.RotateToken] gives
// it another secret.
func (c *Client) AddToken(ctx context.Context, r TokenRequest) (t *Token, secret string, err error) {
	res, err := call[taskenginev1.AddTokenResponse](ctx, c, taskenginev1connect.TaskServiceAddTokenProcedure, tokenRequestMessage(&r), false)
	if err != nil {
		return nil, "", err
	}
	return tokenFrom(res.GetToken()), res.GetSecret(), nil
}

// Tokens returns the tokens of the cluster by name, and then those of the file of the node. With revoked it also returns those
// that were revoked or have expired in the last 30 days.
func (c *Client) Tokens(ctx context.Context, revoked bool) ([]*Token, error) {
	res, err := call[taskenginev1.ListTokensResponse](ctx, c, taskenginev1connect.TaskServiceListTokensProcedure, &taskenginev1.ListTokensRequest{Revoked: revoked}, true)
	if err != nil {
		return nil, err
	}
	return all(res.GetTokens(), tokenFrom), nil
}

// RevokeToken has the nodes refuse a token within about a second. The last valid token that may manage tokens is revoked with force alone. Revoking
// it again changes nothing.
func (c *Client) RevokeToken(ctx context.Context, name string, force bool, by string) (*Token, error) {
	req := &taskenginev1.RevokeTokenRequest{Name: name, Force: force, By: by}
	res, err := call[taskenginev1.RevokeTokenResponse](ctx, c, taskenginev1connect.TaskServiceRevokeTokenProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return tokenFrom(res.GetToken()), nil
}

// RotateToken gives a token another secret, and returns it. The secret from before is accepted for the time of grace. The call is not repeated.
func (c *Client) RotateToken(ctx context.Context, name string, grace time.Duration, by string) (t *Token, secret string, err error) {
	req := &taskenginev1.RotateTokenRequest{Name: name, Grace: span(grace), By: by}
	res, err := call[taskenginev1.RotateTokenResponse](ctx, c, taskenginev1connect.TaskServiceRotateTokenProcedure, req, false)
	if err != nil {
		return nil, "", err
	}
	return tokenFrom(res.GetToken()), res.GetSecret(), nil
}

// RevokeSessions ends all sessions that a person, by the name in audit lines, has begun at the dashboard before a time, which it returns: the present. Every
// node refuses them within about a second, and the person may log in again. It returns [ErrNotAllowed] if people do not log in at an identity provider.
func (c *Client) RevokeSessions(ctx context.Context, person, by string) (before time.Time, err error) {
	req := &taskenginev1.RevokeSessionsRequest{Person: person, By: by}
	res, err := call[taskenginev1.RevokeSessionsResponse](ctx, c, taskenginev1connect.TaskServiceRevokeSessionsProcedure, req, true)
	if err != nil {
		return time.Time{}, err
	}
	return timeOf(res.GetBefore()), nil
}

func tokenRequestMessage(r *TokenRequest) *taskenginev1.AddTokenRequest {
	return &taskenginev1.AddTokenRequest{Name: r.Name, Roles: r.Roles, Types: r.Types, ExpiresIn: span(r.ExpiresIn), By: r.By}
}

func tokenFrom(m *taskenginev1.Token) *Token {
	return &Token{
		Name: m.GetName(), State: TokenState(m.GetState()), Roles: m.GetRoles(), Types: m.GetTypes(), CreatedAt: timeOf(m.GetCreatedAt()), By: m.GetBy(),
		ExpiresAt: timeOf(m.GetExpiresAt()), InFile: m.GetInFile(), RotatedAt: timeOf(m.GetRotatedAt()), RotatedBy: m.GetRotatedBy(),
		EarlierUntil: timeOf(m.GetEarlierUntil()), RevokedAt: timeOf(m.GetRevokedAt()), RevokedBy: m.GetRevokedBy(),
	}
}
