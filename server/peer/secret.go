package peer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/taskengine/taskengine/coord/secret"
)

// errForeign says that a signature is not one of a node of this cluster.
var errForeign = errors.New("it is not signed by a node of this cluster")

// signer signs by the secret of the cluster.
type signer struct{ *secret.Secret }

// sign returns the signature of some parts, none of which contains a line break.
func (s signer) sign(ctx context.Context, parts ...string) (string, error) {
	key, err := s.Get(ctx, false)
	if err != nil {
		return "", err
	}
	return signature(key, parts), nil
}

// verify returns an error unless a signature is that of the parts.
func (s signer) verify(ctx context.Context, signed string, parts ...string) error {
	for _, anew := range []bool{false, true} {
		key, err := s.Get(ctx, anew)
		if err != nil {
			return err
		}
		if hmac.Equal([]byte(signed), []byte(signature(key, parts))) {
			return nil
		}
	}
	return errForeign
}

func signature(key []byte, parts []string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
