package uplink

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"

	"grattoir/sync/wire"
)

// hearTrust notes whom central tells terminals to believe, by its mark.
func (u *Uplink) hearTrust(mark string) {
	u.mu.Lock()
	u.named = mark
	u.mu.Unlock()
	if mark != "" && mark != u.me().file.Trust {
		signal(u.lapsed)
	}
}

// learn asks whom to believe when that has changed, and goes on with it. It tells whether
// it did. A CA that is new is believed because the one that is known vouches for the
// connection, and central's known key for the list.
func (u *Uplink) learn(ctx context.Context, me Identity) (bool, error) {
	u.mu.Lock()
	mark := u.named
	u.mu.Unlock()
	if mark == "" || mark == me.file.Trust {
		return false, nil
	}
	signed, err := u.client().read(ctx, requestTimeout, http.MethodGet, wire.PathTrust, nil)
	if err != nil {
		return false, err
	}
	text, err := u.openNote(string(signed))
	if err != nil {
		return false, fmt.Errorf("whom to believe: %w", err)
	}
	t, err := wire.ParseTrust(text)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	id, err := me.told(t)
	if err != nil {
		return false, err
	}
	if err := u.become(id); err != nil {
		return false, err
	}
	u.hearTrust(t.Mark())
	u.opt.Log.Warn("central tells whom to believe", "cas", len(t.CAs), "central_keys", len(t.CentralKeys), "seal_keys", len(t.SealKeys))
	return true, nil
}

// told is the identity with whom it is to believe now. The certificate stays, also where
// its CA has ended: the next renewal replaces it.
func (i Identity) told(t wire.Trust) (Identity, error) {
	if last, err := time.Parse(time.RFC3339Nano, i.file.Told); err == nil && t.Issued.Before(last) {
		return i, fmt.Errorf("%w: whom to believe as of %v, it was told as of %v already", ErrAnswer, t.Issued, last)
	}
	f := i.file
	f.Trust, f.Told = t.Mark(), t.Issued.UTC().Format(time.RFC3339Nano)
	f.CA, f.MoreCAs = certificatePEM(t.CAs[0]), nil
	for _, ca := range t.CAs[1:] {
		f.MoreCAs = append(f.MoreCAs, certificatePEM(ca))
	}
	f.PastCentralKeys = nil
	for _, k := range i.CentralKeys() {
		if !slices.Contains(t.CentralKeys, k) {
			f.PastCentralKeys = append(f.PastCentralKeys, k)
		}
	}
	f.CentralKey, f.MoreCentralKeys, f.SealKeys = t.CentralKeys[0], t.CentralKeys[1:], t.SealKeys
	if !slices.ContainsFunc(t.CAs, i.issuedBy) {
		if at := slices.IndexFunc(i.cas, i.issuedBy); at >= 0 {
			f.LeafCA = certificatePEM(i.cas[at])
		}
	}
	id, err := f.identity()
	if err != nil {
		return i, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	id.dir = i.dir
	return id, nil
}

func (i Identity) issuedBy(ca *x509.Certificate) bool { return i.leaf.CheckSignatureFrom(ca) == nil }
