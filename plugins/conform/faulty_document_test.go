package conform_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// The faults of programs that use documents.
const (
	anyVersion   = "replaces any version of a document"
	noZero       = "does not say that a document must not exist"
	doubles      = "has versions of documents of double precision"
	noTimes      = "forgets when a document expires"
	ignoresError = "ignores that a document was not read"
	ignoresTerms = "uses documents that the host does not serve"
)

func TestEachFaultOfDocumentsFailsItsChecks(t *testing.T) {
	const (
		replaces  = "a task reads a document, and replaces the version that it has read"
		creates   = "a task creates a document that it has not found, and writes and deletes others"
		fails     = "a task that cannot read a document fails, unless it goes on without"
		noReads   = "without the feature a read of a document fails its task for good"
		noWrites  = "without the feature a write of a document fails its task for good"
		counts    = "tasks of a node count in a document, each once"
		forbidden = "a node refuses a document that its handler may not use, and writes none of the finish"
	)
	eachFault(t, []string{replaces, creates, fails, noReads, noWrites, counts, forbidden}, map[string][]string{
		"no fault with documents": nil,
		anyVersion:                {replaces, creates, counts},
		noZero:                    {creates, counts},
		doubles:                   {replaces},
		noTimes:                   {replaces, creates},
		ignoresError:              {fails},
		ignoresTerms:              {noReads, noWrites},
	})
}

// usesDocuments reports whether the program serves the type documents.
func (f faulty) usesDocuments() bool { return strings.Contains(f.fault, "document") }

// documents has the tasks of a program that are to use documents. The goroutine that serves the stream owns it.
type documents struct {
	unsupported bool
	asked       map[uint64]*documentTask // tasks that wait for their document, by run
	held        map[uint64]*wire.Finish  // finishes that wait for others, so that these tasks conflict
	counted     bool                     // two tasks have counted in one version of a document
}

// documentTask is the payload of a task of the type documents.
type documentTask struct {
	Read   string
	Append *string
	Write  []struct {
		Key, Data string
		Delete    bool
		ExpiresMS int64 `json:"expires_ms"`
	}
}

// begin begins a task, and returns the frame that asks for its document or ends it.
func (d *documents) begin(fault string, r *wire.Run) *wire.FromHandler {
	in := new(documentTask)
	if err := json.Unmarshal(r.GetPayload(), in); err != nil {
		panic(err)
	}
	if d.unsupported && fault != ignoresTerms {
		e := &wire.Error{Message: "the host has no documents", Class: "unsupported", Permanent: true}
		return &wire.FromHandler{Credits: 1, Finishes: []*wire.Finish{{RunId: r.GetRunId(), Outcome: &wire.Finish_Error{Error: e}}}}
	}
	if in.Read == "" || d.unsupported {
		return &wire.FromHandler{Credits: 1, Finishes: []*wire.Finish{in.finish(fault, &wire.DocumentRead{RunId: r.GetRunId()})}}
	}
	d.asked[r.GetRunId()] = in
	return &wire.FromHandler{Reads: []*wire.ReadDocument{{RunId: r.GetRunId(), Number: 1, Key: in.Read}}}
}

// read takes the answer to a read, and returns the frame with the finishes that are not held any more.
func (d *documents) read(fault string, answer *wire.DocumentRead) *wire.FromHandler {
	id := answer.GetRunId()
	in := d.asked[id]
	delete(d.asked, id)
	d.held[id] = in.finish(fault, answer)
	if answer.GetError() != "" && fault != ignoresError {
		d.held[id] = &wire.Finish{RunId: id, Outcome: &wire.Finish_Error{Error: &wire.Error{Message: answer.GetError()}}}
	}
	out := new(wire.FromHandler)
	if !d.conflicts(in) {
		return out
	}
	for id, f := range d.held {
		out.Finishes, out.Credits = append(out.Finishes, f), out.Credits+1
		delete(d.held, id)
	}
	return out
}

// conflicts reports whether the finishes that are held conflict if they end now. The first task of a node that counts in
// a document waits for a second one, however long that takes to come.
func (d *documents) conflicts(in *documentTask) bool {
	if len(d.asked) > 0 {
		return false
	}
	if !strings.HasPrefix(in.Read, "count/") {
		return true
	}
	d.counted = d.counted || len(d.held) > 1
	return d.counted
}

// finish returns the end of a task that has read its document.
func (in *documentTask) finish(fault string, d *wire.DocumentRead) *wire.Finish {
	version, at := d.GetVersion(), d.GetExpiresAt()
	if fault == doubles {
		version = uint64(float64(version))
	}
	result, err := json.Marshal(map[string]any{"data": string(d.GetData()), "version": strconv.FormatUint(d.GetVersion(), 10), "expires_ms": at / 1000})
	if err != nil {
		panic(err)
	}
	f := &wire.Finish{RunId: d.GetRunId(), Outcome: &wire.Finish_Result{Result: result}}
	if in.Append != nil {
		w := &wire.WriteDocument{Key: in.Read, Data: append(d.GetData(), *in.Append...), Replaces: &version, ExpiresAt: at}
		if fault == anyVersion || fault == noZero && version == 0 {
			w.Replaces = nil
		}
		f.Documents = append(f.Documents, w)
	}
	for _, w := range in.Write {
		f.Documents = append(f.Documents, &wire.WriteDocument{Key: w.Key, Data: []byte(w.Data), Delete: w.Delete, ExpiresAt: w.ExpiresMS * 1000})
	}
	if fault == noTimes {
		for _, w := range f.Documents {
			w.ExpiresAt = 0
		}
	}
	return f
}
