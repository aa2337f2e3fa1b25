package central

// Because says which of central's rules refused an act, or what it does not know, so that
// people can be told in their own language: kinds of error travel, never texts.
type Because string

const (
	BecauseRunTooLong          Because = "run-too-long"
	BecausePackUnknown         Because = "pack-unknown"
	BecauseCodeUnknown         Because = "code-unknown"
	BecauseTerminalUnknown     Because = "terminal-unknown"
	BecauseReceiverSuspended   Because = "receiver-suspended"
	BecauseNotAllDelivered     Because = "not-all-delivered"
	BecauseOwnedAlready        Because = "owned-already"
	BecauseNotReleased         Because = "not-released"
	BecauseWhyMissing          Because = "why-missing"
	BecauseNoneWaits           Because = "none-waits"
	BecauseOwnPlace            Because = "own-place"
	BecauseReasonTooLong       Because = "reason-too-long"
	BecauseReversalUnknown     Because = "reversal-unknown"
	BecauseReversalDecided     Because = "reversal-decided"
	BecauseReversalNotCredited Because = "reversal-not-credited"
	BecauseLiableMissing       Because = "liable-missing"
	BecauseConflictUnknown     Because = "conflict-unknown"
	BecauseConflictStands      Because = "conflict-state"
	BecauseRoleMissing         Because = "role-missing"
	BecauseEntryUnknown        Because = "entry-unknown"
	BecauseEntryNoPayment      Because = "entry-no-payment"
	BecauseIdentityUnknown     Because = "identity-unknown"
	BecauseTextBounds          Because = "text-bounds"
	BecauseAgreeSelf           Because = "agree-self"
	BecauseAgreedAlready       Because = "agreed-already"
	BecauseRequestOld          Because = "request-old"
	BecauseIdentityErased      Because = "identity-erased"
	BecauseRequestUnknown      Because = "request-unknown"
	BecauseRequestOfOther      Because = "request-of-other"
	BecauseNobodyAgreed        Because = "nobody-agreed"
	BecauseOpenedAlready       Because = "opened-already"
	BecauseAgreementOld        Because = "agreement-old"
	BecauseOperatorMissing     Because = "operator-missing"
	BecauseAudienceTwice       Because = "audience-twice"
	BecauseMessageBounds       Because = "message-bounds"
	BecauseFirstDay            Because = "first-day"
	BecauseLastDay             Because = "last-day"
	BecauseMessageOver         Because = "message-over"
	BecauseNobodyMeant         Because = "nobody-meant"
	BecauseMessageUnknown      Because = "message-unknown"
	BecausePolicyWithdrawn     Because = "policy-withdrawn"
	BecausePolicyOld           Because = "policy-old"
	BecausePolicyUnknown       Because = "policy-unknown"
	BecausePolicySize          Because = "policy-size"
	BecausePolicyWrong         Because = "policy-wrong"
	BecauseBlockUnknown        Because = "block-unknown"
	BecauseSalesEnded          Because = "sales-ended"
	BecauseEmissionMissing     Because = "emission-missing"
	BecauseReasonBounds        Because = "reason-bounds"
	BecauseStoppedAlready      Because = "stopped-already"
	BecauseTerminalShutOut     Because = "terminal-shut-out"
	BecauseNotStopped          Because = "not-stopped"
	BecauseTerminalUnknownHere Because = "terminal-unknown-here"
	BecausePackStands          Because = "pack-state"
	BecauseBlockSuspended      Because = "block-suspended"
	BecausePackPaid            Because = "pack-paid"
	BecausePackUnknownHere     Because = "pack-unknown-here"
	BecauseTicketRange         Because = "ticket-range"
	BecauseWholePack           Because = "whole-pack"
	BecauseNotAllStolen        Because = "not-all-stolen"
	BecauseStolenAlready       Because = "stolen-already"
	BecauseTicketActs          Because = "ticket-acts"
	BecausePackNotDelivered    Because = "pack-not-delivered"
	BecauseReturnedAlready     Because = "returned-already"
	BecauseTicketRuns          Because = "ticket-runs"
	BecausePackForgotten       Because = "pack-forgotten"
	BecauseSettleRule          Because = "settle-rule"
	BecauseSalesEndedAlready   Because = "sales-ended-already"
	BecauseSalesNotEnded       Because = "sales-not-ended"
	BecauseSuspendedAlready    Because = "suspended-already"
	BecauseNotSuspended        Because = "not-suspended"
	BecauseClaimsAllowed       Because = "claims-allowed"
	BecausePageRows            Because = "page-rows"
	BecausePageEnd             Because = "page-end"
	BecauseReleaseOther        Because = "release-other"
)

// Refusal is an ErrRefused or ErrNotFound with its kind and what is particular to it, in the
// order in which texts name it.
type Refusal struct {
	Because Because
	Args    []any
	Err     error
}

func (r *Refusal) Error() string { return r.Err.Error() }

func (r *Refusal) Unwrap() error { return r.Err }

// because gives an error its kind. Its own words are for commands and logs.
func because(kind Because, err error, args ...any) error { return &Refusal{kind, args, err} }

// Refusals lists the kinds.
func Refusals() []Because {
	return []Because{
		BecauseRunTooLong, BecausePackUnknown, BecauseCodeUnknown, BecauseTerminalUnknown, BecauseReceiverSuspended, BecauseNotAllDelivered,
		BecauseOwnedAlready, BecauseNotReleased, BecauseWhyMissing, BecauseNoneWaits, BecauseOwnPlace, BecauseReasonTooLong, BecauseReversalUnknown,
		BecauseReversalDecided, BecauseReversalNotCredited, BecauseLiableMissing, BecauseConflictUnknown, BecauseConflictStands,
		BecauseRoleMissing, BecauseEntryUnknown, BecauseEntryNoPayment, BecauseIdentityUnknown, BecauseTextBounds, BecauseAgreeSelf,
		BecauseAgreedAlready, BecauseRequestOld, BecauseIdentityErased, BecauseRequestUnknown, BecauseRequestOfOther, BecauseNobodyAgreed,
		BecauseOpenedAlready, BecauseAgreementOld, BecauseOperatorMissing, BecauseAudienceTwice, BecauseMessageBounds, BecauseFirstDay,
		BecauseLastDay, BecauseMessageOver, BecauseNobodyMeant, BecauseMessageUnknown, BecausePolicyWithdrawn, BecausePolicyOld,
		BecausePolicyUnknown, BecausePolicySize, BecausePolicyWrong, BecauseBlockUnknown, BecauseSalesEnded, BecauseEmissionMissing,
		BecauseReasonBounds, BecauseStoppedAlready, BecauseTerminalShutOut, BecauseNotStopped, BecauseTerminalUnknownHere, BecausePackStands,
		BecauseBlockSuspended, BecausePackPaid, BecausePackUnknownHere, BecauseTicketRange, BecauseWholePack, BecauseNotAllStolen,
		BecauseStolenAlready, BecauseTicketActs, BecausePackNotDelivered, BecauseReturnedAlready, BecauseTicketRuns, BecausePackForgotten,
		BecauseSettleRule, BecauseSalesEndedAlready, BecauseSalesNotEnded, BecauseSuspendedAlready, BecauseNotSuspended, BecauseClaimsAllowed,
		BecausePageRows, BecausePageEnd, BecauseReleaseOther,
	}
}
