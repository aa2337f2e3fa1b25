package terminal_test

import (
	"errors"
	"slices"
	"testing"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
)

func messagesCounter() *counter {
	c := newCounter()
	c.messages = &terminaltest.Messages{}
	c.restart()
	return c
}

func TestMandatoryMessageKeepsTheCounterFromPayingUntilItIsRead(t *testing.T) {
	c := messagesCounter()
	v := c.check(c.ticket(t, 1, 8, 2000))
	c.messages.Say(validate.Message{Number: 7, Mandatory: true, French: "Alerte", English: "Alert"})
	var denied *terminal.Denied
	if _, err := c.Pay(ctx, v.ID, terminal.Confirmed{}); !errors.As(err, &denied) || denied.Code != "K11" || !errors.Is(err, terminal.ErrUnread) || len(c.ledger.Claims()) != 0 {
		t.Fatalf("%v", err)
	}
	if state, _ := c.State(); len(state.Messages) != 1 || state.Messages[0].Number != 7 || state.View.ID != v.ID {
		t.Fatalf("the counter shows %+v", state.Messages)
	}
	if v := c.check(c.ticket(t, 2, 8, 2000)); v.Verdict.Reason != validate.Winner {
		t.Errorf("a scan while it waits: %s", v.Verdict.Reason)
	}
	b, err := c.BeginBatch()
	if err != nil {
		t.Fatal(err)
	}
	c.check(c.ticket(t, 3, 8, 2000))
	if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrUnread) {
		t.Errorf("a batch: %v", err)
	}
	if err := c.EndBatch(b.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.ReadMessage(ctx, 7); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.messages.WasRead(); !slices.Equal(got, []string{"7 marie"}) {
		t.Errorf("%v", got)
	}
	if state, _ := c.State(); len(state.Messages) != 0 {
		t.Errorf("it still waits: %+v", state.Messages)
	}
	if v = c.pay(t, c.check(c.ticket(t, 4, 8, 2000))); v.Stage != terminal.Paid {
		t.Errorf("after it was read: %s", v.Stage)
	}
}

func TestMessageThatIsNotMandatoryStopsNothing(t *testing.T) {
	c := messagesCounter()
	c.messages.Say(validate.Message{Number: 8, Mandatory: true, Read: true, French: "x", English: "y"})
	c.messages.Say(validate.Message{Number: 9, French: "Bonjour", English: "Hello"})
	if v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000))); v.Stage != terminal.Paid {
		t.Errorf("%s", v.Stage)
	}
	list, err := c.Messages(ctx)
	if err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	c.messages.Break(errors.New("disk"))
	if err := c.ReadMessage(ctx, 9); err == nil {
		t.Error("what could not be recorded is read")
	}
}

func TestMandatoryMessagesComeFirst(t *testing.T) {
	c := messagesCounter()
	c.messages.Say(validate.Message{Number: 1, Mandatory: true, French: "x", English: "y"})
	c.messages.Say(validate.Message{Number: 2, French: "x", English: "y"})
	c.messages.Say(validate.Message{Number: 3, Mandatory: true, French: "x", English: "y"})
	if err := c.ReadMessage(ctx, 99); err != nil { // one that is gone does not wait any more
		t.Fatal(err)
	}
	state, _ := c.State()
	var got []int64
	for _, m := range state.Messages {
		got = append(got, m.Number)
	}
	if !slices.Equal(got, []int64{3, 1, 2}) {
		t.Errorf("%v", got)
	}
}
