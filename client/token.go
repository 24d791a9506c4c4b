package client

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
)

// tokenOf returns a token as it is sent, without the white space around it. Its errors do not contain the token.
func tokenOf(given string) (string, error) {
	const ask = "; give the text that `taskengine token create` prints"
	token := strings.TrimSpace(given)
	switch {
	case token == "" && given != "":
		return "", newError("", codes.InvalidArgument, "the token has white space only"+ask, "")
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", newError("", codes.InvalidArgument, "the token has a character that no token has, such as a space or a line break between others"+ask, "")
	}
	return token, nil
}

// bearer is a token, as the credentials of each request.
type bearer string

// GetRequestMetadata returns the header that has the token.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity reports that connections without TLS will do, such as those on one machine.
func (bearer) RequireTransportSecurity() bool { return false }
