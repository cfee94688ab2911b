/* SPDX-License-Identifier: BSD-2-Clause */
/* All of cojoin but the test driver (cojoin/testing.h). */
#ifndef COJOIN_COJOIN_H
#define COJOIN_COJOIN_H

#include <cojoin/app.h>
#include <cojoin/config.h>
#include <cojoin/error.h>
#include <cojoin/partitioner.h>
#include <cojoin/record.h>
#include <cojoin/report.h>
#include <cojoin/serde.h>
#include <cojoin/topology.h>

#endif
