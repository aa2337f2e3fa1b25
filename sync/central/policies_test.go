package central

import (
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// signer makes a key, trusted as a seal key where it says so.
func (w *world) signer(t *testing.T, trusted bool) note.Signer {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "limits")
	if err != nil {
		t.Fatal(err)
	}
	if trusted {
		if _, err := w.TrustSealKey(vkey); err != nil {
			t.Fatal(err)
		}
	}
	s, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signedPolicy(t *testing.T, s note.Signer, version string) []byte {
	t.Helper()
	p := policy.Policy{Version: version, ValidFrom: policy.Date{Year: 2026, Month: 12, Day: 1}, Currency: "EUR", ClaimDays: 30, ShopLimit: 30000, IdentityPrize: 200000, IdentityTotalOver: 30000}
	signed, err := note.Sign(&note.Note{Text: p.Text()}, s)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestPublishedPolicyIsInTheSnapshotAndServed(t *testing.T) {
	onEachStore(t, testPublishedPolicyIsInTheSnapshotAndServed)
}

func testPublishedPolicyIsInTheSnapshotAndServed(t *testing.T, w *world) {
	ctx := t.Context()
	d, key := w.enrolled(t, "T-1"), w.signer(t, true)
	before, _, err := w.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.PublishPolicy(ctx, signedPolicy(t, key, "2026-9"), "anne")
	if err != nil || first.Version != "2026-9" || first.ValidTo != "" || len(first.SignedBy) != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	if again, err := w.PublishPolicy(ctx, signedPolicy(t, key, "2026-9"), "paul"); err != nil || again.Operator != "anne" {
		t.Errorf("the same file again: %+v %v", again, err)
	}
	second, err := w.PublishPolicy(ctx, signedPolicy(t, key, "2026-10"), "anne")
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		signed   []byte
		operator string
	}{
		"an older version":      {signedPolicy(t, key, "2026-8"), "anne"},
		"another of one number": {signedPolicy(t, w.signer(t, true), "2026-10"), "anne"},
		"a stranger's":          {signedPolicy(t, w.signer(t, false), "2026-11"), "anne"},
		"nobody":                {signedPolicy(t, key, "2026-11"), ""},
		"no policy":             {[]byte("x"), "anne"},
		"too much":              {[]byte(strings.Repeat("x", policy.MaxText+1)), "anne"},
	} {
		if _, err := w.PublishPolicy(ctx, x.signed, x.operator); err == nil || !strings.Contains(err.Error(), ErrRefused.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	version, signed, err := w.Snapshot(ctx)
	if err != nil || version != before+2 {
		t.Fatalf("snapshot %d after %d: %v", version, before, err)
	}
	text, _, _ := strings.Cut(signed, "\n\n")
	s, err := wire.ParseSnapshot(text + "\n")
	if err != nil || len(s.Policies) != 2 || s.Policies[0].SHA256 != second.SHA256 || s.Policies[1].SHA256 != first.SHA256 {
		t.Fatalf("%+v %v", s.Policies, err)
	}
	var plain, asked, file string
	for path, into := range map[string]*string{wire.PathSnapshot: &plain, wire.PathSnapshot + wire.SnapshotQuery: &asked, wire.PathPolicies + first.SHA256: &file} {
		if e := get(t, d.client, path, into); e != nil {
			t.Fatal(e)
		}
	}
	if strings.Contains(plain, "policies") || asked != signed || file != string(signedPolicy(t, key, "2026-9")) {
		t.Errorf("served:\n%s\n%s\n%s", plain, asked, file)
	}
	wantKind(t, get(t, d.client, wire.PathPolicies+strings.Repeat("0", 64), &file), wire.KindNotFound)
	list, err := w.Policies(ctx)
	if err != nil || len(list) != 2 || list[0].Version != "2026-10" || list[1].Operator != "anne" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestWithdrawnPolicyIsListedNoMore, and its version stays taken.
func TestWithdrawnPolicyIsListedNoMore(t *testing.T) {
	w := newWorld(t)
	key := w.signer(t, true)
	for _, version := range []string{"2026-1", "2026-2"} {
		if _, err := w.PublishPolicy(t.Context(), signedPolicy(t, key, version), "anne"); err != nil {
			t.Fatal(err)
		}
	}
	before, _, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WithdrawPolicy(t.Context(), "2026-2", "")
	wantErr(t, err, ErrRefused)
	p, err := w.WithdrawPolicy(t.Context(), "2026-2", "paul")
	if err != nil || p.WithdrawnBy != "paul" || p.Withdrawn.IsZero() {
		t.Fatalf("%+v %v", p, err)
	}
	_, err = w.WithdrawPolicy(t.Context(), "2026-2", "paul")
	wantErr(t, err, ErrNotFound)
	version, signed, err := w.Snapshot(t.Context())
	text, _, _ := strings.Cut(signed, "\n\n")
	s, parsed := wire.ParseSnapshot(text + "\n")
	if err != nil || parsed != nil || version != before+1 || len(s.Policies) != 1 {
		t.Errorf("snapshot %d lists %+v: %v %v", version, s.Policies, err, parsed)
	}
	for _, version := range []string{"2026-2", "2026-1"} {
		_, err = w.PublishPolicy(t.Context(), signedPolicy(t, w.signer(t, true), version), "anne")
		wantErr(t, err, ErrRefused)
	}
	_, err = w.PublishPolicy(t.Context(), signedPolicy(t, key, "2026-2"), "anne")
	wantErr(t, err, ErrRefused)
	if list, err := w.Policies(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
}
