"""Where the fields are: WAL messages and COPY rows framed into offsets and lengths, no value looked at.

A field is (offset, length, format) into the chunk's bytes. Length -1 is NULL, -2 is a value the WAL did not carry.
Every read is inside its own message: bytes that do not follow the protocol give MALFORMED, never a wrong field.
"""

from __future__ import annotations

import numba as nb

NULL, ABSENT = -1, -2
OK, NO_ROOM, MALFORMED = 0, 1, 2

# Columns of the arrays the WAL kernel writes.
REL, OP, WEIGHT, FIRST, COUNT, BORROWED, SEQ, ROW_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7
TXN_ROWS, TXN_LSN, TXN_TS, TXN_XID, TXN_WIDTH = 0, 1, 2, 3, 4
CTL_START, CTL_END, CTL_TXNS, CTL_WIDTH = 0, 1, 2, 3
OFFSET, LENGTH, FORMAT, FIELD_WIDTH = 0, 1, 2, 3
# What lives on from one chunk to the next.
IN_TXN, NEXT_SEQ, XID, TS, KEEPALIVE_END, REPLY_ASKED, STATE_WIDTH = 0, 1, 2, 3, 4, 5, 6

_B, _C, _D, _I, _K, _N, _O, _T, _U = (ord(c) for c in "BCDIKNOTU")
_b, _k, _n, _t, _u, _w = (ord(c) for c in "bkntuw")
_XLOG_HEADER = 25  # 'w', start LSN, end LSN, server time


@nb.njit("int64(uint8[::1], int64)", cache=True, inline="always")
def _int16(data, at):  # type: ignore[no-untyped-def]
    value = (nb.int64(data[at]) << 8) | nb.int64(data[at + 1])
    return value - 0x10000 if value >= 0x8000 else value


@nb.njit("int64(uint8[::1], int64)", cache=True, inline="always")
def _uint32(data, at):  # type: ignore[no-untyped-def]
    return (
        (nb.int64(data[at]) << 24)
        | (nb.int64(data[at + 1]) << 16)
        | (nb.int64(data[at + 2]) << 8)
        | nb.int64(data[at + 3])
    )


@nb.njit("int64(uint8[::1], int64)", cache=True, inline="always")
def _int32(data, at):  # type: ignore[no-untyped-def]
    value = _uint32(data, at)
    return value - 0x100000000 if value >= 0x80000000 else value


@nb.njit("int64(uint8[::1], int64)", cache=True, inline="always")
def _int64(data, at):  # type: ignore[no-untyped-def]
    return (_int32(data, at) << 32) | _uint32(data, at + 4)


@nb.njit("Tuple((int64, int64, int64))(uint8[::1], int64, int64, int64[:,::1], int64)", cache=True)
def _tuple(data, at, end, fields, count):  # type: ignore[no-untyped-def]
    """One TupleData: (bytes up to here, fields written, code)."""
    if at + 2 > end:
        return at, count, MALFORMED
    columns = _int16(data, at)
    at += 2
    if columns < 0 or count + columns > fields.shape[0]:
        return at, count, MALFORMED if columns < 0 else NO_ROOM
    for _ in range(columns):
        if at >= end:
            return at, count, MALFORMED
        kind = data[at]
        at += 1
        if kind in (_n, _u):
            fields[count, OFFSET] = 0
            fields[count, LENGTH] = NULL if kind == _n else ABSENT
            fields[count, FORMAT] = 0
        elif kind in (_t, _b):
            if at + 4 > end:
                return at, count, MALFORMED
            length = _int32(data, at)
            at += 4
            if length < 0 or at + length > end:
                return at, count, MALFORMED
            fields[count, OFFSET] = at
            fields[count, LENGTH] = length
            fields[count, FORMAT] = kind
            at += length
        else:
            return at, count, MALFORMED
        count += 1
    return at, count, OK


@nb.njit("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64, int64[::1])", cache=True)
def _row(rows, at, relation, op, weight, first, count, borrowed, state):  # type: ignore[no-untyped-def]
    rows[at, REL] = relation
    rows[at, OP] = op
    rows[at, WEIGHT] = weight
    rows[at, FIRST] = first
    rows[at, COUNT] = count
    rows[at, BORROWED] = borrowed
    rows[at, SEQ] = state[NEXT_SEQ]
    state[NEXT_SEQ] += 1


@nb.njit(
    "Tuple((int64, int64, int64))(uint8[::1], int64, int64, int64[:,::1], int64, int64[:,::1], int64, int64[::1])",
    cache=True,
)
def _change(data, at, end, rows, row, fields, field, state):  # type: ignore[no-untyped-def]
    """One Insert, Update or Delete: (rows, fields, code). An update is its old row, then its new one."""
    if at + 6 > end:
        return row, field, MALFORMED
    kind, relation, part = data[at], _uint32(data, at + 1), data[at + 5]
    at += 6
    old, old_count = -1, 0
    if kind != _I and part in (_K, _O):
        old = field
        at, field, code = _tuple(data, at, end, fields, field)
        if code != OK:
            return row, field, code
        old_count = field - old
        if part == _K:  # columns outside the key come as NULL; a key column is never NULL
            for i in range(old, field):
                if fields[i, LENGTH] == NULL:
                    fields[i, LENGTH] = ABSENT
        if kind == _D:
            _row(rows, row, relation, _D, -1, old, old_count, 0, state)
            return row + 1, field, OK if at == end else MALFORMED
        if at >= end:
            return row, field, MALFORMED
        part = data[at]
        at += 1
    if part != _N or kind == _D:
        return row, field, MALFORMED
    new = field
    at, field, code = _tuple(data, at, end, fields, field)
    if code != OK or at != end:
        return row, field, MALFORMED if code == OK else code
    count = field - new
    if kind == _U:
        if old < 0:  # the key did not change: it is read from the new row, which knows nothing else of the old one
            _row(rows, row, relation, _U, -1, new, count, 1, state)
        else:
            if old_count != count:
                return row, field, MALFORMED
            for i in range(count):  # an unchanged TOAST value stands in the old image, if there is one
                if fields[new + i, LENGTH] == ABSENT and fields[old + i, LENGTH] >= 0:
                    fields[new + i, OFFSET] = fields[old + i, OFFSET]
                    fields[new + i, LENGTH] = fields[old + i, LENGTH]
                    fields[new + i, FORMAT] = fields[old + i, FORMAT]
            _row(rows, row, relation, _U, -1, old, count, 0, state)
        row += 1
    _row(rows, row, relation, kind, 1, new, count, 0, state)
    return row + 1, field, OK


@nb.njit(
    "Tuple((int64, int64, int64, int64))(uint8[::1], int64[::1], int64, int64[::1],"
    " int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1])",
    nogil=True,
    cache=True,
)
def scan_wal(data, ends, messages, state, rows, transactions, controls, fields):  # type: ignore[no-untyped-def]
    """All messages of a chunk: (rows, transactions, controls, code).

    Changes become rows, Commits close transactions, keepalives go into `state`; Relation and every other message is
    listed in `controls` for Python. With NO_ROOM the caller makes the arrays larger and scans the chunk again.
    """
    row, txn, control, field, start = 0, 0, 0, 0, 0
    for message in range(messages):
        end = ends[message]
        at = start
        start = end
        if end - at == 18 and data[at] == _k:
            state[KEEPALIVE_END] = max(state[KEEPALIVE_END], _int64(data, at + 1))
            state[REPLY_ASKED] = max(state[REPLY_ASKED], nb.int64(data[at + 17]))
            continue
        at += _XLOG_HEADER
        if at >= end or data[at - _XLOG_HEADER] != _w:
            return row, txn, control, MALFORMED
        if row + 2 > rows.shape[0] or txn >= transactions.shape[0] or control >= controls.shape[0]:
            return row, txn, control, NO_ROOM
        kind = data[at]
        if kind in (_I, _U, _D):
            if state[IN_TXN] == 0:
                return row, txn, control, MALFORMED
            row, field, code = _change(data, at, end, rows, row, fields, field, state)
            if code != OK:
                return row, txn, control, code
        elif kind == _B:
            if end - at != 21 or state[IN_TXN] != 0:
                return row, txn, control, MALFORMED
            state[IN_TXN], state[NEXT_SEQ] = 1, 0
            state[TS], state[XID] = _int64(data, at + 9), _uint32(data, at + 17)
        elif kind == _C:
            if end - at != 26 or state[IN_TXN] == 0:
                return row, txn, control, MALFORMED
            transactions[txn, TXN_ROWS] = row
            transactions[txn, TXN_LSN] = _int64(data, at + 10)
            transactions[txn, TXN_TS] = _int64(data, at + 18)
            transactions[txn, TXN_XID] = state[XID]
            state[IN_TXN] = 0
            txn += 1
        elif kind == _T:
            if end - at < 6 or end - at != 6 + 4 * _int32(data, at + 1) or state[IN_TXN] == 0:
                return row, txn, control, MALFORMED
            if row + _int32(data, at + 1) > rows.shape[0]:
                return row, txn, control, NO_ROOM
            for i in range(_int32(data, at + 1)):
                _row(rows, row, _uint32(data, at + 6 + 4 * i), _T, 0, -1, 0, 0, state)
                row += 1
        else:
            controls[control, CTL_START] = at
            controls[control, CTL_END] = end
            controls[control, CTL_TXNS] = txn
            control += 1
    return row, txn, control, OK


@nb.njit("Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64[:,::1], uint8[::1])", nogil=True, cache=True)
def scan_copy(data, at, end, columns, fields, formats):  # type: ignore[no-untyped-def]
    """Rows of a binary COPY: (rows, code). The trailer, a field count of -1, ends them."""
    row, field = 0, 0
    while at < end:
        if at + 2 > end:
            return row, MALFORMED
        found = _int16(data, at)
        at += 2
        if found == -1 and at == end:
            return row, OK
        if found != columns:
            return row, MALFORMED
        if field + columns > fields.shape[0]:
            return row, NO_ROOM
        for column in range(columns):
            if at + 4 > end:
                return row, MALFORMED
            length = _int32(data, at)
            at += 4
            if length < -1 or (length > 0 and at + length > end):
                return row, MALFORMED
            fields[field, OFFSET] = at
            fields[field, LENGTH] = length
            fields[field, FORMAT] = formats[column]
            at += max(length, 0)
            field += 1
        row += 1
    return row, OK


@nb.njit(
    "int64(int64[::1], int64[::1], uint8[::1], int64[:,::1], int64[:,::1], int64[:,::1], uint8[::1])",
    nogil=True,
    cache=True,
)
def by_column(first, borrowed, key, fields, offsets, lengths, formats):  # type: ignore[no-untyped-def]
    """Fields of chosen rows, a line per column. -1, or the first column whose values come in both formats.

    `first` is -1 for a row without values (a truncate). A borrowed row is an old one whose key stands in the new row.
    """
    columns = offsets.shape[0]
    for row in range(first.size):
        for column in range(columns):
            if first[row] < 0:
                offsets[column, row], lengths[column, row] = 0, NULL
                continue
            field = first[row] + column
            offsets[column, row] = fields[field, OFFSET]
            lengths[column, row] = fields[field, LENGTH]
            if borrowed[row] and not key[column]:
                lengths[column, row] = ABSENT
            if lengths[column, row] >= 0:
                if formats[column] == 0:
                    formats[column] = fields[field, FORMAT]
                elif formats[column] != fields[field, FORMAT]:
                    return column
    return -1
