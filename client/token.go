package client

import "context"

// bearer is a token, as the credentials of each request.
type bearer string

// GetRequestMetadata returns the header that has the token.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity reports that connections without TLS will do, such as those on one machine.
func (bearer) RequireTransportSecurity() bool { return false }
