package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// errDocumentElsewhere is the reason why a document cannot be written with the end of an attempt.
var errDocumentElsewhere = errors.New("it may be in another database than the task: give the task the ordering key that is the key of the document, or the part in braces of that key")

// Document returns a document. If there is none, the error wraps [task.ErrNotFound]. If [Config.Codec] cannot decode the data, Document
// returns the document without it, and an error that wraps [ErrUnreadable].
//
// A handler reads documents by [task.ReadDocument].
func (e *Engine) Document(ctx context.Context, key string) (*task.Document, error) {
	if err := checkDocumentKey(key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	t, err := e.store.Get(ctx, task.DocumentID(key))
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		return nil, fmt.Errorf("engine: read the document %q: %w", key, err)
	}
	d := task.DocumentOf(t, e.Now())
	if d == nil {
		return nil, fmt.Errorf("engine: the document %q: %w", key, task.ErrNotFound)
	}
	if d.Data, err = e.contents.open(task.DocumentType, codec.Payload, d.Data); err != nil {
		return d, fmt.Errorf("engine: the document %q: %w: %w", key, ErrUnreadable, err)
	}
	return d, nil
}

var _ task.DocumentReader = (*attempt)(nil)

// ReadDocument implements [task.DocumentReader].
func (a *attempt) ReadDocument(key string) (task.Document, error) {
	d, err := a.engine.Document(a, key)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return task.Document{Key: key}, nil
	case err != nil:
		return task.Document{}, err
	}
	return *d, nil
}

// Documents returns the documents that have a key that begins with prefix and is greater than after, in the order of their keys, at
// most limit. next is the value of after for the next page, "" at the end. A page may be short, or empty, before the end. A document that cannot be decoded
// is returned without data.
func (e *Engine) Documents(ctx context.Context, prefix, after string, limit int) (page []*task.Document, next string, err error) {
	holders, err := e.Keyed(ctx, task.DocumentType, prefix, after, limit)
	if err != nil {
		return nil, "", fmt.Errorf("engine: list documents: %w", err)
	}
	if len(holders) == limit && limit > 0 {
		next = holders[limit-1].Key
	}
	ids := make([]task.ID, len(holders))
	for i := range holders {
		ids[i] = holders[i].ID
	}
	rows, err := e.GetAll(ctx, ids...) // decoded
	if err != nil {
		return nil, "", fmt.Errorf("engine: list documents: %w", err)
	}
	now := e.Now()
	for _, t := range rows {
		if d := task.DocumentOf(t, now); d != nil {
			page = append(page, d)
		}
	}
	return page, next, nil
}

// WriteDocuments writes documents in one transaction: all of them, or none. The rules for the writes are those of
// [task.WithDocuments]; where several databases keep the tasks, all documents have to be in one of them. If a document has another
// version than its write replaces, the error is a [task.DocumentConflict]. After any other error that is not an [ErrInvalid] it is unknown whether they were written.
func (e *Engine) WriteDocuments(ctx context.Context, writes ...task.DocumentWrite) error {
	changes, err := e.documentChanges(writes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(changes) == 0 {
		return nil
	}
	store, err := relayStoreOf(e.store)
	if err != nil {
		return ErrUnsupported
	}
	database := store.databaseOf(changes[0].Row.Shard)
	for i := range changes {
		if store.databaseOf(changes[i].Row.Shard) != database {
			return fmt.Errorf("%w: the documents %q and %q are in different databases", ErrInvalid, changes[0].Row.Key, changes[i].Row.Key)
		}
	}
	err = store.updateIn(ctx, database, func(tx storage.Tx) error { return writeDocuments(ctx, tx, changes) })
	if err != nil {
		return fmt.Errorf("engine: write documents: %w", err)
	}
	return nil
}

// WriteDocumentsTx writes documents within a transaction of the engine's store: they are written if and only if it commits. A handler that
// ends its attempt by [FinishTx] writes documents so in the same transaction. The rules for the writes are those of [task.WithDocuments]. If a
// document has another version than its write replaces, the error wraps a [task.DocumentConflict]; then, as after any other error, the transaction must be
// rolled back.
func (e *Engine) WriteDocumentsTx(ctx context.Context, tx storage.Tx, writes ...task.DocumentWrite) error {
	changes, err := e.documentChanges(writes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	shards := shardsOf(tx)
	for i := range changes {
		if !shards.Has(changes[i].Row.Shard) {
			return fmt.Errorf("%w: the document %q: %w", ErrInvalid, changes[i].Row.Key, storage.ErrElsewhere)
		}
	}
	if err := writeDocuments(ctx, tx, changes); err != nil {
		return fmt.Errorf("engine: write documents: %w", err)
	}
	return nil
}

// writeDocuments makes changes in a transaction. A conflict is an error.
func writeDocuments(ctx context.Context, tx storage.Tx, changes []task.DocumentChange) error {
	if len(changes) == 0 {
		return nil
	}
	conflict, err := storage.WriteDocuments(ctx, tx, changes)
	if conflict != nil {
		return conflict
	}
	return err
}

// checkDocuments completes the documents that r asks for with the end of an attempt of t, or returns why they cannot be written.
func (e *Engine) checkDocuments(t *task.Task, r *task.Rerun) error {
	if len(r.Documents) == 0 {
		return nil
	}
	changes, err := e.documentChanges(r.Documents)
	shards := e.shardsAround(t.ID)
	for i := range changes {
		if !shards.Has(changes[i].Row.Shard) && err == nil {
			err = fmt.Errorf("the document %q: %w", changes[i].Row.Key, errDocumentElsewhere)
		}
	}
	if err != nil {
		err = task.Permanent(task.WithClass(classRefused, fmt.Errorf("the handler asked to write documents with the end of this attempt, which has failed therefore: %w", err)))
		if e.catalog.policyOf(t.Type).Delivery == policy.AtMostOnce { // the work was done
			err = task.InDoubt(err)
		}
		return err
	}
	r.Writes = changes
	return nil
}

// documentChanges returns the changes of writes, in the order of the IDs of their rows: transactions that lock several of them do so in one
// order.
func (e *Engine) documentChanges(writes []task.DocumentWrite) ([]task.DocumentChange, error) {
	if len(writes) > task.MaxDocuments {
		return nil, fmt.Errorf("there are %d documents, of %d allowed", len(writes), task.MaxDocuments)
	}
	now, changes := e.Now(), make([]task.DocumentChange, 0, len(writes))
	for i := range writes {
		w := &writes[i]
		if err := checkDocument(w); err != nil {
			return nil, err
		}
		stored, err := e.contents.encode(task.DocumentType, codec.Payload, slices.Clone(w.Data))
		if err != nil {
			return nil, fmt.Errorf("the document %q: %w", w.Key, err)
		}
		changes = append(changes, task.NewDocumentChange(now, w, stored))
	}
	slices.SortFunc(changes, func(a, b task.DocumentChange) int { return a.Row.ID.Compare(b.Row.ID) })
	for i := 1; i < len(changes); i++ {
		if changes[i].Row.ID == changes[i-1].Row.ID {
			return nil, fmt.Errorf("the document %q is there twice", changes[i].Row.Key)
		}
	}
	return changes, nil
}

func checkDocument(w *task.DocumentWrite) error {
	err := checkDocumentKey(w.Key)
	switch {
	case err != nil:
	case len(w.Data) > task.MaxDocument:
		err = fmt.Errorf("the data has %d bytes, of %d allowed", len(w.Data), task.MaxDocument)
	case w.Delete && (len(w.Data) > 0 || !w.ExpiresAt.IsZero()):
		err = errors.New("it is to be deleted, and has data or a time")
	case outOfRange(w.ExpiresAt):
		err = errors.New("times must lie between the years 1970 and 9999")
	}
	if err != nil {
		return fmt.Errorf("the document %.80q: %w", cmp.Or(w.Key, "(no key)"), err)
	}
	return nil
}

func checkDocumentKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key of a document is missing")
	case len(key) > MaxKey:
		return fmt.Errorf("the key of a document has %d bytes, of %d allowed", len(key), MaxKey)
	case !utf8.ValidString(key), !printable(key):
		return errors.New("the key of a document has characters that cannot be printed")
	}
	return nil
}
