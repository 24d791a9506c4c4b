package limits

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Short returns the form of a name where a name may have at most so many bytes: the name itself, or if it is longer,
// its beginning and its hash. Different names have different results for the same number: the result for a name that is too
// long is itself too long to stand for itself.
func Short(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:most], "") + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}
