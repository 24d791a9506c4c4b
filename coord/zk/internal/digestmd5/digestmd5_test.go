package digestmd5_test

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord/zk/internal/digestmd5"
)

// example is that of RFC 2831, section 4.
func example() *digestmd5.Client {
	return &digestmd5.Client{User: "chris", Password: "secret", URI: "imap/elwood.innosoft.com", Cnonce: "OA6MHXh6VqTrRk"}
}

const challenge = `realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`

func TestTheExampleOfTheRFC(t *testing.T) {
	c := example()
	answer, err := c.Respond([]byte(challenge))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"charset=utf-8", `username="chris"`, `realm="elwood.innosoft.com"`, `nonce="OA6MG9tEQGm2hh"`, "nc=00000001",
		`cnonce="OA6MHXh6VqTrRk"`, `digest-uri="imap/elwood.innosoft.com"`, "response=d388dad90d4bbd760a152321f2143af7", "qop=auth",
	} {
		if !strings.Contains(string(answer), part) {
			t.Errorf("the answer %s lacks %s", answer, part)
		}
	}
	if err := c.Verify([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffd")); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "rspauth=", "rspauth=ea40f60335c427b5527b84dbabcdfffe", "rspauth", `rspauth="`} {
		if err := c.Verify([]byte(wrong)); err == nil {
			t.Errorf("%q proves that the server knows the password", wrong)
		}
	}
}

func TestChallenges(t *testing.T) {
	for name, c := range map[string]struct{ challenge, says string }{
		"spaces, upper case and empty elements": {` Realm="r" , ,nonce = "n",QOP="auth-int , auth" ,algorithm=md5-sess,`, ""},
		"escaped characters":                    {`realm="a \"quoted\" \\ r",nonce="n",algorithm=md5-sess`, ""},
		"several realms":                        {`realm="a",realm="b",nonce="n",algorithm=md5-sess`, ""},
		"nothing":                               {``, "no nonce"},
		"no nonce":                              {`realm="r",algorithm=md5-sess`, "no nonce"},
		"an empty nonce":                        {`nonce="",algorithm=md5-sess`, "no nonce"},
		"two nonces":                            {`nonce="a",nonce="b",algorithm=md5-sess`, "twice"},
		"no algorithm":                          {`nonce="n"`, "algorithm"},
		"another algorithm":                     {`nonce="n",algorithm=sha-256`, "sha-256"},
		"encryption demanded":                   {`nonce="n",algorithm=md5-sess,qop="auth-conf"`, "auth-conf"},
		"a quote that is not closed":            {`nonce="n`, "not closed"},
		"a backslash at the end":                {`nonce="n\`, "backslash"},
		"text after a quote":                    {`nonce="n"x,algorithm=md5-sess`, "follows"},
		"no value":                              {`nonce`, "no value"},
		"no name":                               {`="x"`, "no value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := example().Respond([]byte(c.challenge))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("the error is %v, want one with %q", err, c.says)
			}
		})
	}
}

func TestWhatIsNotASCIINeedsUTF8(t *testing.T) {
	c := example()
	c.Password = "Zürich"
	if _, err := c.Respond([]byte(challenge)); err != nil {
		t.Error(err)
	}
	if _, err := c.Respond([]byte(`nonce="n",algorithm=md5-sess`)); err == nil || !strings.Contains(err.Error(), "ASCII") {
		t.Errorf("without UTF-8: %v", err)
	}
}

func FuzzAChallengeNeverPanics(f *testing.F) {
	f.Add(challenge)
	f.Fuzz(func(_ *testing.T, s string) {
		c := example()
		_, _ = c.Respond([]byte(s))
		_ = c.Verify([]byte(s))
	})
}
