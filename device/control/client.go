package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Client speaks to a daemon's socket.
type Client struct {
	path string
	http http.Client
}

// NewClient makes a client of the socket at path. It connects at each request.
func NewClient(path string) *Client {
	return &Client{path: path, http: http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}}
}

// ErrNoDaemon means that nobody answers at the socket.
var ErrNoDaemon = errors.New("terminald does not answer")

// Check shows a code to the counter, as if it had been scanned or typed.
func (c *Client) Check(ctx context.Context, code string, typed bool) (Answer, error) {
	return call[Answer](ctx, c, "POST", "/v1/check", checkRequest{code, typed})
}

// Complete gives the hidden digits of the code that check id shows.
func (c *Client) Complete(ctx context.Context, id, digits string) (Answer, error) {
	return call[Answer](ctx, c, "POST", "/v1/digits", digitsRequest{id, digits})
}

// Pay pays the ticket that check id shows.
func (c *Client) Pay(ctx context.Context, id string, confirmCash bool) (Answer, error) {
	return c.PayIdentified(ctx, id, confirmCash, nil)
}

// PayIdentified pays as Pay does, to a winner whose document was seen; nil is nobody.
func (c *Client) PayIdentified(ctx context.Context, id string, confirmCash bool, identity *validate.Identification) (Answer, error) {
	return call[Answer](ctx, c, "POST", "/v1/pay", payRequest{id, confirmCash, identity})
}

// Ask asks central to allow the payment of the ticket that check id shows, and gives the
// counter as it is then. Answered waits for what central says.
func (c *Client) Ask(ctx context.Context, id string) (Answer, error) {
	return call[Answer](ctx, c, "POST", "/v1/ask", struct {
		ID string `json:"id"`
	}{id})
}

// Answered is the counter once central has answered about what it shows in before, or as
// it is after half a minute.
func (c *Client) Answered(ctx context.Context, before Answer) (Answer, error) {
	return call[Answer](ctx, c, "GET", "/v1/view?after="+url.QueryEscape(before.ID)+"&stage="+url.QueryEscape(string(before.Stage))+"&reason="+url.QueryEscape(string(before.Verdict.Reason)), nil)
}

// SignOn begins an operator's shift with the cash in the till.
func (c *Client) SignOn(ctx context.Context, operator, pin string, floatMinor int64) (validate.Shift, error) {
	return call[validate.Shift](ctx, c, "POST", "/v1/sign-on", signOnRequest{operator, pin, floatMinor})
}

// SignOff ends the shift of whoever is signed on; with a manager's id and PIN, that of
// somebody who has left.
func (c *Client) SignOff(ctx context.Context, manager, pin string) (validate.Closing, error) {
	return call[validate.Closing](ctx, c, "POST", "/v1/sign-off", pinRequest{manager, pin})
}

// Lock locks the counter.
func (c *Client) Lock(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/lock", struct{}{})
	return err
}

// Unlock opens the counter with the PIN of whoever is signed on.
func (c *Client) Unlock(ctx context.Context, pin string) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/unlock", pinRequest{"", pin})
	return err
}

// X reports the open period of a kind, on paper too where print says so.
func (c *Client) X(ctx context.Context, kind validate.ClosingKind, print bool) (validate.Closing, error) {
	return call[validate.Closing](ctx, c, "POST", "/v1/closing", closingRequest{Kind: kind, Print: print})
}

// Z ends a day, a month or a year.
func (c *Client) Z(ctx context.Context, kind validate.ClosingKind, manager, pin string) (validate.Closing, error) {
	return call[validate.Closing](ctx, c, "POST", "/v1/closing", closingRequest{pinRequest: pinRequest{manager, pin}, Kind: kind, Z: true})
}

// ReleasePacks gives up this terminal's packs, TakePacks asks central for them.
func (c *Client) ReleasePacks(ctx context.Context, manager, pin string) (PackRight, error) {
	return call[PackRight](ctx, c, "POST", "/v1/packs/right", packRightRequest{pinRequest{manager, pin}, "release"})
}

// TakePacks asks central for the packs that were released.
func (c *Client) TakePacks(ctx context.Context) error {
	_, err := call[PackRight](ctx, c, "POST", "/v1/packs/right", packRightRequest{Act: "take"})
	return err
}

// Reverse asks for a payment to be taken back.
func (c *Client) Reverse(ctx context.Context, number string, reason validate.ReversalReason, text, manager, pin string) (validate.Reversal, error) {
	return call[validate.Reversal](ctx, c, "POST", "/v1/reverse", reverseRequest{pinRequest{manager, pin}, number, reason, text})
}

// SetTraining switches training mode.
func (c *Client) SetTraining(ctx context.Context, on bool, manager, pin string) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/training", trainingRequest{pinRequest{manager, pin}, on})
	return err
}

// History gives the newest acts of the counter.
func (c *Client) History(ctx context.Context) ([]Transaction, error) {
	return call[[]Transaction](ctx, c, "GET", "/v1/history", nil)
}

// BeginBatch starts collecting tickets.
func (c *Client) BeginBatch(ctx context.Context) (Batch, error) {
	return call[Batch](ctx, c, "POST", "/v1/batch/begin", struct{}{})
}

// Batch is the open batch.
func (c *Client) Batch(ctx context.Context) (Batch, error) {
	return call[Batch](ctx, c, "GET", "/v1/batch", nil)
}

// PayBatch pays what can be paid of a batch.
func (c *Client) PayBatch(ctx context.Context, id string, confirmCash bool, identity *validate.Identification) (Batch, error) {
	return call[Batch](ctx, c, "POST", "/v1/batch/pay", batchRequest{id, confirmCash, identity})
}

// EndBatch gives a batch up.
func (c *Client) EndBatch(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/batch/end", batchRequest{ID: id})
	return err
}

// Messages are what central says to whoever is at the counter, the newest first.
func (c *Client) Messages(ctx context.Context) ([]validate.Message, error) {
	return call[[]validate.Message](ctx, c, "GET", "/v1/messages", nil)
}

// ReadMessage records that a message was read.
func (c *Client) ReadMessage(ctx context.Context, number int64) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/messages/read", readRequest{number})
	return err
}

// Packs are the packs of this terminal.
func (c *Client) Packs(ctx context.Context) ([]validate.PackRun, error) {
	return call[[]validate.PackRun](ctx, c, "GET", "/v1/packs", nil)
}

// Pack is what is known of a pack; the game code is as printed, padded.
func (c *Client) Pack(ctx context.Context, gameCode string, pack uint32) (Pack, error) {
	return call[Pack](ctx, c, "GET", fmt.Sprintf("/v1/packs/%s/%d", url.PathEscape(gameCode), pack), nil)
}

// ActivateShown puts the pack on sale that view id shows.
func (c *Client) ActivateShown(ctx context.Context, id string) (Pack, error) {
	return call[Pack](ctx, c, "POST", "/v1/packs/activate", activateRequest{ID: id})
}

// Activate puts a pack on sale that is named. The answer says whether it is.
func (c *Client) Activate(ctx context.Context, gameCode string, pack uint32) (Pack, error) {
	return call[Pack](ctx, c, "POST", "/v1/packs/activate", activateRequest{GameCode: gameCode, Pack: pack})
}

// Reprint prints another copy of a slip.
func (c *Client) Reprint(ctx context.Context, number string) (Receipt, error) {
	return call[Receipt](ctx, c, "POST", "/v1/reprint", reprintRequest{number})
}

// ReprintClosing prints the slip of a Z again.
func (c *Client) ReprintClosing(ctx context.Context, number string) (validate.Closing, error) {
	return call[validate.Closing](ctx, c, "POST", "/v1/closing/reprint", reprintRequest{number})
}

// Rescan makes the daemon look for new manifests.
func (c *Client) Rescan(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "POST", "/v1/rescan", struct{}{})
}

// View is the counter now.
func (c *Client) View(ctx context.Context) (Answer, error) {
	return call[Answer](ctx, c, "GET", "/v1/view", nil)
}

// Next is the counter when it shows something else than before, or what it shows
// after half a minute.
func (c *Client) Next(ctx context.Context, before Answer) (Answer, error) {
	return call[Answer](ctx, c, "GET", "/v1/view?after="+url.QueryEscape(before.ID)+"&stage="+url.QueryEscape(string(before.Stage)), nil)
}

// Status is how the terminal is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "GET", "/v1/status", nil)
}

// Last lists the newest claims, newest first.
func (c *Client) Last(ctx context.Context) ([]Receipt, error) {
	return call[[]Receipt](ctx, c, "GET", "/v1/last", nil)
}

// Slip is the picture of a claim's slip, as PNG.
func (c *Client) Slip(ctx context.Context, number string) ([]byte, error) {
	return c.send(ctx, "GET", "/v1/slip/"+url.PathEscape(number), nil)
}

// whyNot says what to do about a socket that does not answer.
func whyNot(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return "is it running? Start it, or name its socket with --socket or GRATTOIR_SOCKET"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not open its socket: join the socket's group, or use sudo"
	}
	return err.Error()
}

const maxAnswer = 4 << 20

// call sends one request and reads its JSON. An answer about a payment that was not
// tried comes with terminal.ErrStale or terminal.ErrNeeds.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var out T
	text, err := c.send(ctx, method, path, body)
	if text == nil {
		return out, err
	}
	return out, errors.Join(err, json.Unmarshal(text, &out))
}

// send sends one request. The text is nil unless it is an answer, which a refusal may be too.
func (c *Client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://terminald"+path, content)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if errors.Is(ctx.Err(), context.Canceled) { // not the daemon's silence
		return nil, fmt.Errorf("given up, and the daemon may do it all the same (terminalctl history says): %w", context.Cause(ctx))
	}
	if err != nil {
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("%w at %q: %s", ErrNoDaemon, c.path, whyNot(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoDaemon, c.path, err)
	}
	if res.StatusCode == http.StatusOK {
		return text, nil
	}
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error == "" {
		return nil, fmt.Errorf("terminald answers %s", res.Status)
	}
	switch f.Error {
	case "stale":
		return text, terminal.ErrStale
	case "needs":
		return text, terminal.ErrNeeds
	}
	for _, known := range []error{terminal.ErrNoStaff, terminal.ErrManager, terminal.ErrBatch, terminal.ErrNoBatch} {
		if f.Error == known.Error() {
			return nil, known
		}
	}
	if f.Code != "" {
		return nil, &terminal.Denied{Fault: terminal.Fault{Code: f.Code, ClerkFR: f.Clerk, ClerkEN: f.Clerk, Technician: f.Technician}, Err: errors.New(f.Error)}
	}
	return nil, errors.New(f.Error)
}
