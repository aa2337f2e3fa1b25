package central

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// Policy is a signed policy that terminals get by the snapshot.
type Policy struct {
	Version   string    `json:"version"`
	ValidFrom string    `json:"valid_from"`
	ValidTo   string    `json:"valid_to"` // "" for no end
	SHA256    string    `json:"sha256"`   // of the file
	Size      int64     `json:"size"`     // bytes
	SignedBy  []string  `json:"signed_by"`
	Operator  string    `json:"operator"`
	Published time.Time `json:"published"`
	// Withdrawn and WithdrawnBy say who took it back, zero and "" while it is listed.
	Withdrawn   time.Time `json:"withdrawn,omitzero"`
	WithdrawnBy string    `json:"withdrawn_by,omitempty"`
}

// PublishPolicy lists a signed policy in a new snapshot, by which every terminal gets it.
// A trusted seal key must have signed it, and its version must be newer than all before:
// terminals pay by the newest whose days hold, so a lower one would never be in force on
// a day that is still to come. The same file again changes nothing. Errors include ErrRefused.
func (c *Central) PublishPolicy(ctx context.Context, signed []byte, operator string) (Policy, error) {
	fail := func(err error) (Policy, error) { return Policy{}, fmt.Errorf("publish the policy: %w", err) }
	if operator == "" || len(operator) > 64 {
		return fail(because(BecauseOperatorMissing, fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused)))
	}
	p, err := c.readPolicy(signed)
	if err != nil {
		return fail(err)
	}
	p.Operator, p.Published = operator, c.opt.Now().UTC().Truncate(time.Millisecond)
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		known, err := listPolicies(ctx, tx)
		if err != nil {
			return err
		}
		for _, k := range known {
			switch {
			case k.SHA256 == p.SHA256 && k.WithdrawnBy != "":
				return because(BecausePolicyWithdrawn, fmt.Errorf("%w: version %s was withdrawn: give it a newer version", ErrRefused, k.Version), k.Version)
			case k.SHA256 == p.SHA256:
				p = k.Policy
				return nil
			case !policy.Newer(p.Version, k.Version):
				return because(BecausePolicyOld, fmt.Errorf("%w: its version %s is not newer than %s, which is published: versions only rise", ErrRefused, p.Version, k.Version), p.Version, k.Version)
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO policies(sha256, version, valid_from, valid_to, signed, operator, published) VALUES($1, $2, $3, $4, $5, $6, $7)",
			p.SHA256, p.Version, p.ValidFrom, p.ValidTo, string(signed), p.Operator, wire.FormatTime(p.Published)); err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("policy published", "version", p.Version, "from", p.ValidFrom, "to", p.ValidTo, "operator", operator)
	return p, nil
}

// WithdrawPolicy takes a published policy back: the next snapshot does not list it, and a
// terminal that hears that pays by it no more. Its version stays taken. The errors include
// ErrNotFound.
func (c *Central) WithdrawPolicy(ctx context.Context, version, operator string) (Policy, error) {
	fail := func(err error) (Policy, error) {
		return Policy{}, fmt.Errorf("withdraw policy %.64q: %w", version, err)
	}
	if operator == "" || len(operator) > 64 {
		return fail(because(BecauseOperatorMissing, fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused)))
	}
	var p Policy
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, "UPDATE policies SET withdrawn = $1, withdrawn_by = $2 WHERE version = $3 AND withdrawn = ''", c.now(), operator, version)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(because(BecausePolicyUnknown, fmt.Errorf("%w: no such policy is listed (central policy list)", ErrNotFound)), err)
		}
		known, err := listPolicies(ctx, tx)
		if err != nil {
			return err
		}
		p = known[slices.IndexFunc(known, func(k storedPolicy) bool { return k.Version == version })].Policy
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("policy withdrawn", "version", version, "operator", operator)
	return p, nil
}

// readPolicy verifies a signed policy under the seal keys that terminals trust.
func (c *Central) readPolicy(signed []byte) (Policy, error) {
	if len(signed) > policy.MaxText {
		return Policy{}, because(BecausePolicySize, fmt.Errorf("%w: %d bytes, at most %d: it is no policy", ErrRefused, len(signed), policy.MaxText), len(signed), policy.MaxText)
	}
	ring, err := c.keyRing()
	if err != nil {
		return Policy{}, err
	}
	text, by, err := ring.Open(signed)
	if err != nil {
		return Policy{}, because(BecausePolicyWrong, fmt.Errorf("%w: %w", ErrRefused, err), err)
	}
	p, err := policy.Parse(text)
	if err != nil {
		return Policy{}, because(BecausePolicyWrong, fmt.Errorf("%w: %w", ErrRefused, err), err)
	}
	sum := sha256.Sum256(signed)
	out := Policy{Version: p.Version, ValidFrom: p.ValidFrom.String(), SHA256: hex.EncodeToString(sum[:]), Size: int64(len(signed)), SignedBy: by}
	if !p.ValidTo.IsZero() {
		out.ValidTo = p.ValidTo.String()
	}
	return out, nil
}

// storedPolicy is a policy with its file.
type storedPolicy struct {
	Policy
	signed string
}

// listPolicies are all that were published, the newest version first.
func listPolicies(ctx context.Context, q querier) ([]storedPolicy, error) {
	var list []storedPolicy
	err := eachRow(ctx, q, "SELECT sha256, version, valid_from, valid_to, signed, operator, published, withdrawn, withdrawn_by FROM policies", func(row scanner) error {
		var p storedPolicy
		var published, withdrawn string
		err := row.Scan(&p.SHA256, &p.Version, &p.ValidFrom, &p.ValidTo, &p.signed, &p.Operator, &published, &withdrawn, &p.WithdrawnBy)
		if err == nil {
			p.Published, err = wire.ParseTime(published)
		}
		if err == nil && withdrawn != "" {
			p.Withdrawn, err = wire.ParseTime(withdrawn)
		}
		p.Size = int64(len(p.signed))
		list = append(list, p)
		return err
	})
	slices.SortFunc(list, func(a, b storedPolicy) int {
		switch {
		case policy.Newer(a.Version, b.Version):
			return -1
		case policy.Newer(b.Version, a.Version):
			return 1
		}
		return cmp.Compare(a.SHA256, b.SHA256)
	})
	return list, err
}

// Policies lists what was published, the newest version first, with whose keys signed it.
func (c *Central) Policies(ctx context.Context) ([]Policy, error) {
	stored, err := listPolicies(ctx, c.store.reader())
	if err != nil {
		return nil, err
	}
	list := []Policy{}
	for _, s := range stored {
		if read, err := c.readPolicy([]byte(s.signed)); err == nil { // a key may have ended since
			s.SignedBy = read.SignedBy
		} else {
			s.SignedBy = []string{}
		}
		list = append(list, s.Policy)
	}
	return list, nil
}

// listedPolicies are those of the snapshot: the newest versions, in their order.
func listedPolicies(ctx context.Context, q querier) ([]wire.PolicyFile, error) {
	stored, err := listPolicies(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []wire.PolicyFile
	stored = slices.DeleteFunc(stored, func(s storedPolicy) bool { return s.WithdrawnBy != "" })
	for _, s := range stored[:min(len(stored), wire.MaxPolicies)] {
		list = append(list, wire.PolicyFile{SHA256: s.SHA256, Size: s.Size})
	}
	return list, nil
}

// servePolicy gives a signed policy by its hash.
func (c *Central) servePolicy(w http.ResponseWriter, r *http.Request, _ caller) {
	c.serveText(w, r, "policy", "SELECT signed FROM policies WHERE sha256 = $1")
}

// serveText gives the text of a kind that the request's hash names, and that a query finds
// by it. What has a hash for its name never changes.
func (c *Central) serveText(w http.ResponseWriter, r *http.Request, kind, query string) {
	sum := r.PathValue("sha256")
	var text string
	err := c.store.reader().QueryRowContext(r.Context(), query, plain(sum)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = wireError(wire.KindNotFound, "no %s %.64s is published", kind, sum)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("ETag", `"`+sum+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}
