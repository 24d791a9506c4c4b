// Package digestmd5 is the client's side of the SASL mechanism DIGEST-MD5 (RFC 2831), as far as ZooKeeper needs it: the
// first authentication of a connection, which is not encrypted by it (qop=auth). Both sides prove that they know the
// password. The mechanism demands MD5; the exchange can be recorded and a weak password guessed from it, so it
// belongs on connections by TLS.
//
// No library for Go replaces it: emersion/go-sasl and mellium.im/sasl do not have the mechanism, and
// beltran/gosasl 1.0.0 takes the cnonce from math/rand and sends no charset, so that users and passwords in UTF-8 fail.
package digestmd5

import (
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Client is one authentication.
type Client struct {
	User, Password string
	URI            string // the service and its name, such as zookeeper/zk-sasl-md5
	Cnonce         string // is random, and new for each authentication: printable, without quotes and backslashes

	realm, nonce string // of the challenge
}

// Respond returns the answer to the server's challenge.
func (c *Client) Respond(challenge []byte) ([]byte, error) {
	all, err := parse(string(challenge))
	if err != nil {
		return nil, fmt.Errorf("the challenge of the server: %w", err)
	}
	c.nonce = all["nonce"]
	if c.nonce == "" {
		return nil, errors.New("the challenge of the server has no nonce")
	}
	if all["algorithm"] != "md5-sess" {
		return nil, fmt.Errorf("the server demands the algorithm %q, want md5-sess", all["algorithm"])
	}
	if qop, ok := all["qop"]; ok && !contains(qop, "auth") {
		return nil, fmt.Errorf("the server demands the protection %q, want auth", qop)
	}
	if all["charset"] != "utf-8" && !isASCII(c.User+c.Password) {
		return nil, errors.New("the server takes no UTF-8, and the user or the password has characters that are not ASCII")
	}
	c.realm = all["realm"]
	var b strings.Builder
	if all["charset"] == "utf-8" {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,realm=%s,nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,response=%s,qop=auth",
		quote(c.User), quote(c.realm), quote(c.nonce), quote(c.Cnonce), quote(c.URI), c.proof("AUTHENTICATE:"))
	return []byte(b.String()), nil
}

// Verify checks the last message of the server, which proves that it knows the password. It is called after Respond.
func (c *Client) Verify(last []byte) error {
	all, err := parse(string(last))
	if err != nil {
		return fmt.Errorf("the proof of the server: %w", err)
	}
	if !hmac.Equal([]byte(all["rspauth"]), []byte(c.proof(":"))) {
		return errors.New("the server does not prove that it knows the password")
	}
	return nil
}

// proof returns the proof that a side knows the password, in hexadecimal digits. The argument what is the beginning of the message of the
// side.
func (c *Client) proof(what string) string {
	secret := md5.Sum([]byte(latin(c.User) + ":" + latin(c.realm) + ":" + latin(c.Password)))
	a1 := string(secret[:]) + ":" + c.nonce + ":" + c.Cnonce
	return sum(sum(a1) + ":" + c.nonce + ":00000001:" + c.Cnonce + ":auth:" + sum(what+c.URI))
}

// latin returns a text in ISO 8859-1 if all of it is in that, and else as it is: so the RFC wants it before it is hashed.
func latin(s string) string {
	var b []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func sum(s string) string {
	h := md5.Sum([]byte(s))
	return hex.EncodeToString(h[:])
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// contains reports whether a list with commas has a word.
func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(w) == word {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// parse returns the values of a message by their names. Of several realms the first counts; nothing else may be there
// twice.
func parse(s string) (map[string]string, error) {
	all := map[string]string{}
	for {
		s = strings.TrimLeft(s, ", \t\r\n")
		if s == "" {
			return all, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !ok || name == "" {
			return nil, fmt.Errorf("%.40q has no value", s)
		}
		value, rest, err := parseValue(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s = rest
		if _, twice := all[name]; !twice {
			all[name] = value
		} else if name != "realm" {
			return nil, fmt.Errorf("%s is there twice", name)
		}
	}
}

// parseValue returns the value at the beginning of a text, and the rest of the text.
func parseValue(s string) (value, rest string, err error) {
	s = strings.TrimLeft(s, " \t")
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ",")
		return strings.TrimSpace(value), rest, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			rest = strings.TrimLeft(s[i+1:], " \t")
			if rest != "" && rest[0] != ',' {
				return "", "", errors.New("something follows the closing quote")
			}
			return b.String(), rest, nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errors.New("a backslash at the end")
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("a quote is not closed")
}
