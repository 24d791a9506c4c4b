package kafka

import (
	"context"
	"fmt"

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
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			secret, err := s.Secret()
			return oauth.Auth{Token: secret}, err
		}), nil
	}
	return nil, fmt.Errorf("%q is not a mechanism", s.Mechanism)
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	secret, err := s.Secret()
	return scram.Auth{User: s.User, Pass: secret}, err
}
