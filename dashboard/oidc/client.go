package oidc

import (
	"io"
	"net/http"
)

// maxAnswer is how many bytes of an answer of the provider are read.
const maxAnswer = 1 << 20

// limited cuts off long answers.
type limited struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = cut{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

// CloseIdleConnections closes the connections that no request uses.
func (l limited) CloseIdleConnections() {
	if c, ok := l.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// cut is a body of which the end is cut off.
type cut struct {
	io.Reader
	io.Closer
}
