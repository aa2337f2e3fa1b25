package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"grattoir/validate"
)

// Beside the ledger lie files with an audit of their own: the operators', and the
// register's of identities. Each audit is a chain whose end could be cut off unseen. So
// before the journal's end is signed, an entry notes how far the audits have come: the
// signature is then over that as well, and so is what central countersigns.

// AuditHead is how far an audit kept beside the ledger has come.
type AuditHead struct {
	Audit string `json:"audit"` // which one: operators or identities
	Seq   int64  `json:"seq"`   // its newest line, from 1
	Hash  string `json:"hash"`  // SHA-256 of that line, 64 hexadecimal digits
}

// check bounds what an entry says of an audit.
func (h AuditHead) check() error {
	raw, err := hex.DecodeString(h.Hash)
	if checkName("audit", h.Audit) != nil || h.Seq < 1 || err != nil || len(raw) != len(Hash{}) || hex.EncodeToString(raw) != h.Hash {
		return fmt.Errorf("%w: the head of an audit %.40q at line %d: want a name, a line from 1, a hash of 64 hexadecimal digits", ErrEntry, h.Audit, h.Seq)
	}
	return nil
}

// AuditHeadsBody notes how far audits have come; those that could not be read are not in it.
type AuditHeadsBody struct {
	Heads []AuditHead `json:"heads"`
}

// maxAudits bounds the audits of one entry.
const maxAudits = 16

// AuditHeads reads the body of an audit-heads entry.
func (e Entry) AuditHeads() (AuditHeadsBody, error) {
	b, err := bodyOf[AuditHeadsBody](e, KindAuditHeads)
	if err != nil {
		return b, err
	}
	if len(b.Heads) == 0 || len(b.Heads) > maxAudits {
		return AuditHeadsBody{}, fmt.Errorf("%w: the heads of %d audits, want 1 to %d", ErrEntry, len(b.Heads), maxAudits)
	}
	for _, h := range b.Heads {
		if err := h.check(); err != nil {
			return AuditHeadsBody{}, err
		}
	}
	return b, nil
}

// auditHeads asks how far the audits have come. It is called without mu, because an audit
// may be waiting for a disk of its own, and with audits, so that what is asked first is
// noted first.
func (l *Ledger) auditHeads(ctx context.Context) []AuditHead {
	if l.opt.Audits == nil {
		return nil
	}
	var list []AuditHead
	for _, h := range l.opt.Audits(ctx) {
		if h.Seq > 0 { // an audit without lines has no end to cut off
			list = append(list, h)
		}
	}
	return list
}

// noteAudits appends how far the audits have come, unless the newest such entry says so.
func (w *writing) noteAudits(ctx context.Context, heads []AuditHead) error {
	if len(heads) == 0 {
		return nil
	}
	body := AuditHeadsBody{}
	switch e, err := newestOf(ctx, w.tx, KindAuditHeads); {
	case err == nil:
		if body, err = e.AuditHeads(); err != nil {
			return fmt.Errorf("%w: entry %d-%d: %w", ErrDamaged, e.Epoch, e.Seq, err)
		}
	case !errors.Is(err, ErrNotFound):
		return fmt.Errorf("%w: the heads of audits noted last: %w", ErrDamaged, err)
	}
	known := func(h AuditHead) bool { return slices.Contains(body.Heads, h) }
	if !slices.ContainsFunc(heads, func(h AuditHead) bool { return !known(h) }) {
		return nil
	}
	for _, h := range heads {
		if err := h.check(); err != nil {
			return err
		}
	}
	_, _, err := w.append(ctx, KindAuditHeads, AuditHeadsBody{Heads: heads})
	return err
}

// NotedAudit is what an entry of the journal says of an audit.
type NotedAudit struct {
	Entry validate.EntryNumber
	AuditHead
}

// AuditHeads are all that the journal says of audits beside it, oldest first. It proves
// nothing before the journal itself is proven.
func (l *Ledger) AuditHeads(ctx context.Context) ([]NotedAudit, error) {
	return notedAudits(ctx, l.read)
}

// AuditHeads is Ledger.AuditHeads.
func (i *Inspection) AuditHeads(ctx context.Context) ([]NotedAudit, error) {
	return notedAudits(ctx, i.look.read)
}

func notedAudits(ctx context.Context, q querier) ([]NotedAudit, error) {
	var list []NotedAudit
	err := eachEntry(ctx, q, "WHERE kind = ? AND kind <> 'claim' ORDER BY epoch, seq", []any{KindAuditHeads}, func(e Entry) error {
		b, err := e.AuditHeads()
		for _, h := range b.Heads {
			list = append(list, NotedAudit{validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}, h})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return list, nil
}
