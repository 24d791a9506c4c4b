package zk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taskengine/taskengine/coord/internal/reason"
	"github.com/taskengine/taskengine/coord/zk/internal/digestmd5"
)

// saslURI is the name of the service that ZooKeeper's servers all have.
const saslURI = "zookeeper/zk-sasl-md5"

// saslWire is a wire that authenticates its user by SASL, which the library does not know. When the library reads the
// answer to its request for a session, that answer is held back until the server has accepted the user. So nothing else is
// under way on the connection until then, and the library begins with its requests, and with pings, after that.
//
// If the server refuses the user, the library gets an error as of a broken connection. It goes on to connect, and refused
// has noted why.
type saslWire struct {
	*wire
	user, password string
	refused        func(error)

	ready bool   // of the library's goroutine that reads: the user is accepted, or there is no session
	rest  []byte // of the same: the part of the answer that the library has not read
}

func (w *saslWire) Read(p []byte) (int, error) {
	if !w.ready {
		if err := w.begin(); err != nil {
			return 0, err
		}
		w.ready = true
	}
	if len(w.rest) > 0 {
		n := copy(p, w.rest)
		w.rest = w.rest[n:]
		return n, nil
	}
	return w.wire.Read(p)
}

// begin reads the answer to the request for a session, and authenticates the user if there is one. The answer is the length
// of the rest, the version of the protocol, the timeout, and the id of the session, which is 0 if the server has
// forgotten it.
func (w *saslWire) begin() error {
	if err := w.SetReadDeadline(time.Now().Add(w.longest)); err != nil {
		return err
	}
	body, err := w.frame()
	if err != nil {
		return err
	}
	const session = 8 // where it begins
	if len(body) >= session+8 && binary.BigEndian.Uint64(body[session:]) != 0 {
		if err := w.authenticate(); err != nil {
			return fmt.Errorf("SASL: %w", err)
		}
	}
	w.rest = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	return w.wire.SetReadDeadline(time.Time{})
}

// authenticate lets the user and the server prove to each other that they know the password.
func (w *saslWire) authenticate() error {
	if err := w.Conn.SetDeadline(time.Now().Add(w.longest)); err != nil {
		return err
	}
	c := digestmd5.Client{User: w.user, Password: w.password, URI: saslURI, Cnonce: rand.Text()}
	challenge, err := w.ask(1, nil)
	if err != nil {
		return err
	}
	if challenge == nil {
		return w.refuse("the server has no users for SASL: give it a JAAS file, or use auth: digest", errNoChallenge)
	}
	answer, err := c.Respond(challenge)
	if err != nil {
		return w.refuse("the server requires an unsupported form of DIGEST-MD5: configure users of DigestLoginModule", err)
	}
	proof, err := w.ask(2, answer)
	if err != nil {
		return err
	}
	if proof == nil { // the server goes on with users that it has not accepted (allowSaslFailedClients)
		return w.noUser(errNoProof)
	}
	if err := c.Verify(proof); err != nil {
		return w.refuse("the server does not know the password: it is another server, or has another password for the user", err)
	}
	return w.Conn.SetDeadline(time.Time{})
}

var (
	errNoChallenge = errors.New("no challenge")
	errNoProof     = errors.New("no proof")
)

func (w *saslWire) noUser(cause error) error {
	return w.refuse(fmt.Sprintf("there is no user %q with this password for SASL: correct the user or the password", w.user), cause)
}

// refuse notes that no connection with this configuration can be of use.
func (w *saslWire) refuse(what string, cause error) error {
	err := &reason.Error{What: what, Refused: true, Cause: cause}
	w.refused(err)
	return err
}

// maxFrame is larger than all frames that a server sends before a client has asked for nodes.
const maxFrame = 1 << 16

// frame reads a length and so many bytes.
func (w *saslWire) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.wire, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(w.wire, body)
	return body, err
}

// saslRequest is the kind of a request with a message of SASL.
const saslRequest = 102

// ask sends a message of SASL in a request with a number, and returns that of the answer: nil if it has none.
func (w *saslWire) ask(number uint32, message []byte) ([]byte, error) {
	p := make([]byte, 4, 16+len(message))
	p = binary.BigEndian.AppendUint32(p, number)
	p = binary.BigEndian.AppendUint32(p, saslRequest)
	p = binary.BigEndian.AppendUint32(p, uint32(len(message)))
	p = append(p, message...)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	if _, err := w.Conn.Write(p); err != nil {
		return nil, err
	}
	body, err := w.frame()
	if err != nil {
		return nil, err
	}
	const errorAt, lengthAt, head = 12, 16, 20 // after the number and that of the latest transaction
	if len(body) < lengthAt || binary.BigEndian.Uint32(body) != number {
		return nil, errors.New("the server answers something else")
	}
	if code := int32(binary.BigEndian.Uint32(body[errorAt:])); code != 0 {
		return nil, w.noUser(fmt.Errorf("error %d of ZooKeeper", code))
	}
	if len(body) < head || int32(binary.BigEndian.Uint32(body[lengthAt:])) < 0 {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(body[lengthAt:])
	if uint32(len(body)-head) < n {
		return nil, io.ErrUnexpectedEOF
	}
	return body[head : head+int(n)], nil
}
