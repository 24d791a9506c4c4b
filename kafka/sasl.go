package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms of [SASL].
const (
	Plain       = "plain"
	SCRAM256    = "scram-sha-256"
	SCRAM512    = "scram-sha-512"
	OAuthBearer = "oauthbearer"
)

// SASL says how a client proves who it is.
type SASL struct {
	Mechanism string
	User      string                 // for all but OAuthBearer
	Secret    func() (string, error) // the password of the user, or the token of OAuthBearer, as it is now
}

// mechanism returns the mechanism, which asks for the secret for each connection to a broker.
func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case Plain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			secret, err := s.Secret()
			return plain.Auth{User: s.User, Pass: secret}, err
		}), nil
	case SCRAM256:
		return scram.Sha256(s.scram), nil
	case SCRAM512:
		return scram.Sha512(s.scram), nil
	case OAuthBearer:
		return bearer{oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			secret, err := s.Secret()
			return oauth.Auth{Token: secret}, err
		})}, nil
	}
	return nil, fmt.Errorf("%q is not a mechanism", s.Mechanism)
}

// bearer is OAuthBearer with refusals that name the user's mistake. A broker answers a token that it refuses with the reason.
type bearer struct{ sasl.Mechanism }

func (m bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := m.Mechanism.Authenticate(ctx, host)
	return bearerSession{session}, first, err
}

type bearerSession struct{ sasl.Session }

func (s bearerSession) Challenge(answer []byte) (done bool, next []byte, err error) {
	if len(answer) > 0 {
		return false, nil, fmt.Errorf("%w: the broker says %q", kerr.SaslAuthenticationFailed, answer)
	}
	return s.Session.Challenge(answer)
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	secret, err := s.Secret()
	return scram.Auth{User: s.User, Pass: secret}, err
}
